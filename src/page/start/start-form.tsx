/** The form that starts a run of one pipeline. */
import { type FormEvent, type ReactNode, useId, useMemo, useRef, useState } from "react";
import { useLocation } from "wouter";
import { type ApiError, asApiError, type Doc, post, useMayAct } from "../api.ts";
import { Button, Card, Failure } from "../parts/basics.tsx";
import { say } from "../parts/toast.tsx";
import { InputField } from "./input-field.tsx";
import {
  type Faults,
  type Field,
  type Filled,
  fieldsOf,
  inputOf,
  isAllPlaced,
  placedFaults,
} from "./input-form.ts";

export type ListedPipeline = Doc<"pipelines">["pipelines"][number];

interface StartFormProps {
  readonly project: string;
  readonly pipeline: ListedPipeline;
}

export function StartForm({ project, pipeline }: StartFormProps): ReactNode {
  const fields = useMemo(() => fieldsOf(pipeline.input), [pipeline.input]);
  const [filled, setFilled] = useState<Filled>({});
  const [budget, setBudget] = useState("");
  const { faults, error, isBusy, start, forget } = useStart({ project, pipeline: pipeline.name });
  const form = useRef<HTMLFormElement>(null);
  const mayAct = useMayAct();
  const submit = async (event: FormEvent): Promise<void> => {
    event.preventDefault();
    if (!(await start(fields, filled, budget.trim()))) {
      requestAnimationFrame(() => {
        form.current?.querySelector<HTMLElement>('[aria-invalid="true"]')?.focus();
      });
    }
  };
  const isPlain = fields.length === 0;
  return (
    <Card className="start-form" title={pipeline.name} aside={<StepCount steps={pipeline.steps} />}>
      <form ref={form} noValidate onSubmit={(event) => void submit(event)}>
        {pipeline.description === null ? null : <p className="faint">{pipeline.description}</p>}
        {pipeline.problem === null ? null : (
          <p className="field-error" role="alert">
            {pipeline.problem}
          </p>
        )}
        {isPlain ? <p className="faint">This pipeline takes no input.</p> : null}
        {fields.map((field) => (
          <InputField
            key={field.path}
            field={field}
            filled={filled}
            faults={faults}
            onChange={(path, value) => {
              setFilled((before) => ({ ...before, [path]: value }));
              forget(path);
            }}
          />
        ))}
        <BudgetField budget={budget} onChange={setBudget} />
        {error === undefined ? null : <Failure error={error} />}
        {mayAct ? (
          <div className="actions">
            <Button
              type="submit"
              look="primary"
              icon="start"
              disabled={isBusy || pipeline.problem !== null}
            >
              {isBusy ? "Starting…" : "Start the run"}
            </Button>
          </div>
        ) : null}
      </form>
    </Card>
  );
}

function BudgetField(props: { budget: string; onChange: (budget: string) => void }): ReactNode {
  const id = useId();
  return (
    <details className="limits">
      <summary>Limits</summary>
      <div className="field">
        <label htmlFor={id}>
          Budget <span className="faint small">(optional)</span>
        </label>
        <input
          id={id}
          value={props.budget}
          placeholder="5usd,30m"
          aria-describedby={`${id}-about`}
          onChange={(event) => props.onChange(event.target.value)}
        />
        <p id={`${id}-about`} className="hint">
          Dollars, tokens, turns or time, such as 5usd, 100000tokens, 20turns or 30m; added to the
          budget of the pipeline, if it has one. A run that reaches its limit stops and can be
          resumed.
        </p>
      </div>
    </details>
  );
}

function StepCount({ steps }: { steps: number }): ReactNode {
  if (steps === 0) return null;
  return <span className="faint small">{steps === 1 ? "1 step" : `${steps} steps`}</span>;
}

interface Starting {
  readonly faults: Faults;
  readonly error: ApiError | undefined;
  readonly isBusy: boolean;
  /** False when the input has faults. */
  readonly start: (fields: readonly Field[], filled: Filled, budget: string) => Promise<boolean>;
  /** Takes back the fault of a field that a person changes. */
  readonly forget: (path: string) => void;
}

function useStart(target: { project: string; pipeline: string }): Starting {
  const [faults, setFaults] = useState<Faults>({});
  const [error, setError] = useState<ApiError>();
  const [isBusy, setBusy] = useState(false);
  const [, go] = useLocation();
  const start: Starting["start"] = async (fields, filled, budget) => {
    const read = inputOf(fields, filled);
    setFaults(read.faults);
    setError(undefined);
    if (Object.keys(read.faults).length > 0) return false;
    setBusy(true);
    try {
      const done = await post("/api/runs", {
        ...target,
        ...(read.input === undefined ? {} : { input: read.input }),
        ...(budget === "" ? {} : { budget }),
      });
      // The first line says that it started, which the page shows.
      for (const line of done.lines.slice(1)) say(line);
      go(`/runs/${done.run_id}`);
      return true;
    } catch (failure) {
      const refusal = asApiError(failure);
      const placed = placedFaults(fields, refusal.fields);
      setFaults(placed);
      // Faults that stand beside their fields need no other words.
      if (!isAllPlaced(fields, placed)) setError(refusal);
      setBusy(false);
      return false;
    }
  };
  const forget = (path: string): void =>
    setFaults((before) =>
      Object.fromEntries(Object.entries(before).filter(([other]) => other !== path)),
    );
  return { faults, error, isBusy, start, forget };
}
