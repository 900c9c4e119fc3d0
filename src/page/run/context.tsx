/** What a run was given, and what its steps have put into its context. */
import type { ReactNode } from "react";
import { type CommandDoc, runPath } from "../api.ts";
import { Card, Failure, Loading } from "../parts/basics.tsx";
import { Json } from "../parts/json.tsx";
import { useFreshDocument } from "./run-data.ts";

export function Context({ run, sequence }: { run: string; sequence: number }): ReactNode {
  const show = useFreshDocument<CommandDoc<"show">>(runPath(run, "show"), sequence);
  if (show.error !== undefined) return <Failure error={show.error} />;
  if (show.data === undefined) return <Loading lines={6} />;
  const { context, input, file, cwd, args } = show.data;
  return (
    <div className="run-context">
      <Part title="Context" value={context} none="No step has set a value yet." />
      <Part title="Input" value={input} none="The run was started without input." />
      <Part title="Start" value={{ file, directory: cwd, args }} none="" />
    </div>
  );
}

interface PartProps {
  readonly title: string;
  readonly value: unknown;
  readonly none: string;
}

function Part({ title, value, none }: PartProps): ReactNode {
  const isNone = value === null || (typeof value === "object" && Object.keys(value).length === 0);
  return (
    <Card title={title}>
      <div className="card-body">
        {isNone ? (
          <p className="faint">{none}</p>
        ) : (
          <Json value={value} label={title.toLowerCase()} levels={2} />
        )}
      </div>
    </Card>
  );
}
