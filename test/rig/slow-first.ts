/** The order of the test files: those that take minutes begin first, so that none is left alone at the end. */
import { BaseSequencer, type TestSpecification } from "vitest/node";

const SLOW: readonly RegExp[] = [
  /\/crash\//,
  /crash\.test/,
  /portable|update|table|talk|acp|clean/,
];

export class SlowFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification): number => {
      const found = SLOW.findIndex((words) => words.test(moduleId));
      return found < 0 ? SLOW.length : found;
    };
    return (await super.sort(files)).toSorted((one, other) => rank(one) - rank(other));
  }
}
