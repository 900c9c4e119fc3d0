/**
 * Everything that waits for a person, the oldest first: questions of gates and agents, and effects of
 * which nobody knows whether they happened.
 *
 * Owns: the order, the keys, and where the focus goes when a card goes away.
 */
import { type FocusEvent, type ReactNode, useLayoutEffect, useRef, useState } from "react";
import { Link } from "wouter";
import type { Doc, Loaded } from "../api.ts";
import { useKeys } from "../browser.ts";
import { CommandLine, Empty, Failure, Loading } from "../parts/basics.tsx";
import { Icon } from "../parts/icon.tsx";
import {
  attemptName,
  type OpenQuestion,
  QuestionCard,
  UncertainCard,
  type UncertainEffect,
} from "./cards.tsx";
import "../styles/inbox.css";

/** What a person did here since the page was opened. */
interface Answered {
  readonly key: string;
  readonly run: string;
  readonly pipeline: string;
  readonly step: string;
  readonly lines: readonly string[];
}

type Item =
  | { readonly kind: "question"; readonly key: string; readonly asked: OpenQuestion }
  | { readonly kind: "uncertain"; readonly key: string; readonly asked: UncertainEffect };

export function InboxPage({ inbox }: { inbox: Loaded<Doc<"inbox">> }): ReactNode {
  const [answered, setAnswered] = useState<readonly Answered[]>([]);
  const open = itemsOf(inbox.data).filter(({ key }) => !answered.some((one) => one.key === key));
  const { focus, onFocus } = useCardFocus(open);
  const onDone = (item: Item, done: Doc<"done">): void => {
    const { short_id: run, pipeline, step } = item.asked;
    const record = { key: item.key, run, pipeline, step, lines: done.lines };
    setAnswered((before) => [record, ...before]);
  };
  useKeys({ j: () => focus(1), k: () => focus(-1) });
  return (
    <div className="inbox">
      <header className="page-head">
        <h1 id="inbox-title" tabIndex={-1}>
          Inbox
        </h1>
        <span className="faint figure">{inbox.data === undefined ? "" : open.length}</span>
      </header>
      {inbox.error === undefined ? null : <Failure error={inbox.error} />}
      {inbox.isLoading ? <Loading lines={6} /> : null}
      {inbox.data !== undefined && open.length === 0 ? <NothingOpen /> : null}
      <ol className="inbox-cards" aria-label="Open questions" onFocus={onFocus}>
        {open.map((item) => (
          <li key={item.key}>
            {item.kind === "question" ? (
              <QuestionCard
                id={cardId(item.key)}
                asked={item.asked}
                onDone={(done) => onDone(item, done)}
                onRefused={inbox.reload}
              />
            ) : (
              <UncertainCard
                id={cardId(item.key)}
                effect={item.asked}
                onDone={(done) => onDone(item, done)}
                onRefused={inbox.reload}
              />
            )}
          </li>
        ))}
      </ol>
      <AnsweredList answered={answered} />
    </div>
  );
}

function itemsOf(inbox: Doc<"inbox"> | undefined): readonly Item[] {
  if (inbox === undefined) return [];
  return [
    ...inbox.uncertain.map((asked) => ({ kind: "uncertain", key: keyOf(asked), asked }) as const),
    ...inbox.questions.map((asked) => ({ kind: "question", key: keyOf(asked), asked }) as const),
  ];
}

function keyOf(asked: OpenQuestion | UncertainEffect): string {
  return `${asked.run_id} ${attemptName(asked)}`;
}

function cardId(key: string): string {
  return `card ${key}`.replaceAll(" ", "-");
}

/**
 * Moves the focus between cards. When the card that has it goes away, because of an answer given here
 * or elsewhere, the next card has it at once: a key that is pressed then must not be lost.
 */
function useCardFocus(open: readonly Item[]): {
  readonly focus: (step: number) => void;
  readonly onFocus: (event: FocusEvent) => void;
} {
  const ids = open.map(({ key }) => cardId(key));
  const shown = useRef(ids);
  const last = useRef("");
  useLayoutEffect(() => {
    const before = shown.current;
    const at = before.indexOf(last.current);
    shown.current = ids;
    const isElsewhere = document.activeElement !== document.body;
    if (at === -1 || ids.includes(last.current) || isElsewhere) return;
    const next = [...before.slice(at), ...before.slice(0, at).reverse()];
    const id = next.find((one) => ids.includes(one)) ?? "inbox-title";
    document.getElementById(id)?.focus();
  });
  const focus = (step: number): void => {
    const here = document.activeElement?.closest("article")?.id ?? "";
    const next = ids[Math.min(ids.length - 1, Math.max(0, ids.indexOf(here) + step))];
    if (next !== undefined) document.getElementById(next)?.focus();
  };
  const onFocus = ({ target }: FocusEvent): void => {
    last.current = target.closest("article")?.id ?? "";
  };
  return { focus, onFocus };
}

function NothingOpen(): ReactNode {
  return (
    <Empty title="Nothing waits for you">
      <p>Questions of gates and agents appear here while their runs wait.</p>
      <CommandLine command="perdure answer" />
    </Empty>
  );
}

function AnsweredList({ answered }: { answered: readonly Answered[] }): ReactNode {
  if (answered.length === 0) return null;
  return (
    <section className="answered" aria-label="Answered now">
      <h2>Answered now</h2>
      <ul>
        {answered.map(({ key, run, pipeline, step, lines }) => (
          <li key={key}>
            <Icon name="check" />
            <Link href={`/runs/${run}`}>{pipeline}</Link>
            <span className="mono cut">{step}</span>
            <span className="faint">{lines.join(" ")}</span>
          </li>
        ))}
      </ul>
    </section>
  );
}
