/** An effect that must happen once, and of which only a person can say whether it happened. */
import { type ReactNode, useId, useState } from "react";
import { type Doc, post, runPath } from "../api.ts";
import { Button } from "../parts/basics.tsx";
import { useMayAct } from "../server.ts";
import { CardFrame, type UncertainEffect, useSending } from "./card-frame.tsx";

interface UncertainCardProps {
  readonly id: string;
  readonly effect: UncertainEffect;
  readonly onDone: (done: Doc<"done">) => void;
  readonly onRefused: () => void;
}

export function UncertainCard({ id, effect, onDone, onRefused }: UncertainCardProps): ReactNode {
  const [identity, setIdentity] = useState("");
  const { isBusy, error, send } = useSending({ onDone, onRefused });
  const field = useId();
  const mayAct = useMayAct();
  const settle = (as: "done" | "redo" | "abort"): void => {
    const named = as === "done" && identity.trim() !== "" ? { identity: identity.trim() } : {};
    void send(() => post(runPath(effect.run_id, "settle"), { step: effect.step, as, ...named }));
  };
  return (
    <CardFrame
      id={id}
      asked={effect}
      since={effect.since}
      label={`${effect.pipeline} ${effect.short_id}: did ${effect.step} happen?`}
      error={error}
    >
      <h2 className="question">Did {effect.step} happen?</h2>
      <p>
        Its effect must not happen twice, and {effect.message}. Look where the effect would be, then
        say what is true.
      </p>
      {mayAct ? (
        <>
          <div className="field">
            <label htmlFor={field}>
              What happened <span className="faint small">(optional)</span>
            </label>
            <input
              id={field}
              value={identity}
              placeholder="a release number, an address, a commit"
              onChange={(event) => setIdentity(event.target.value)}
            />
          </div>
          <div className="actions choices">
            <Button look="primary" disabled={isBusy} onClick={() => settle("done")}>
              It happened
            </Button>
            <Button disabled={isBusy} onClick={() => settle("redo")}>
              It did not: run it again
            </Button>
            <Button look="danger" disabled={isBusy} onClick={() => settle("abort")}>
              Give up
            </Button>
          </div>
        </>
      ) : null}
    </CardFrame>
  );
}
