/** Starts a pipeline: choose one of a project, fill in the form for its input. */
import { type FormEvent, type ReactNode, useId, useMemo, useRef, useState } from "react";
import { Link, useLocation } from "wouter";
import {
  type ApiError,
  asApiError,
  type Doc,
  post,
  useDocument,
  useMayAct,
  useServer,
} from "../api.ts";
import { pathInAddress, startHref } from "../links.ts";
import { Button, Card, CommandLine, Empty, Failure, Loading } from "../parts/basics.tsx";
import { Icon } from "../parts/icon.tsx";
import "../styles/start.css";
import { say } from "../parts/dialog.tsx";
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

interface StartPageProps {
  readonly project?: string | undefined;
  readonly pipeline?: string | undefined;
}

export function StartPage({ project: named, pipeline: path }: StartPageProps): ReactNode {
  const pipeline = path === undefined || path === "" ? undefined : pathInAddress(path);
  const server = useServer();
  const [, go] = useLocation();
  const readable = (server?.projects ?? []).filter(({ problem }) => problem === null);
  const project = named ?? (readable.find(({ current }) => current) ?? readable[0])?.project;
  const listed = useDocument<Doc<"pipelines">>(
    project && `/api/projects/${encodeURIComponent(project)}/pipelines`,
  );
  const chosen = listed.data?.pipelines.find(({ name }) => name === pipeline);
  return (
    <>
      <header className="page-head">
        <h1>Start a run</h1>
        {readable.length > 1 && project !== undefined ? (
          <select
            aria-label="Project"
            value={project}
            onChange={(event) => go(startHref(event.target.value))}
          >
            {readable.map((one) => (
              <option key={one.project} value={one.project}>
                {one.name}
              </option>
            ))}
          </select>
        ) : null}
        <span className="faint small mono cut">
          {readable.find((one) => one.project === project)?.directory}
        </span>
      </header>
      {listed.error === undefined ? null : <Failure error={listed.error} />}
      {listed.isLoading ? <Loading lines={6} /> : null}
      {server !== undefined && project === undefined ? <NoPipelines /> : null}
      {listed.data?.pipelines.length === 0 ? <NoPipelines /> : null}
      {project !== undefined && listed.data !== undefined && listed.data.pipelines.length > 0 ? (
        <div className="start" data-chosen={pipeline !== undefined}>
          <PipelineList project={project} pipelines={listed.data.pipelines} chosen={pipeline} />
          {chosen === undefined ? (
            <NotChosen pipeline={pipeline} />
          ) : (
            <StartForm key={chosen.file} project={project} pipeline={chosen} />
          )}
        </div>
      ) : null}
    </>
  );
}

interface ListProps {
  readonly project: string;
  readonly pipelines: readonly ListedPipeline[];
  readonly chosen: string | undefined;
}

/** A search field helps from this many pipelines on. */
const SEARCHED_MIN = 6;

function PipelineList({ project, pipelines, chosen }: ListProps): ReactNode {
  const [search, setSearch] = useState("");
  const words = search.toLowerCase();
  const shown = pipelines.filter(({ name, description }) =>
    `${name} ${description ?? ""}`.toLowerCase().includes(words),
  );
  return (
    <nav className="pipelines" aria-label="Pipelines">
      {pipelines.length < SEARCHED_MIN ? null : (
        <input
          type="search"
          aria-label="Search pipelines"
          placeholder="Search pipelines"
          value={search}
          onChange={(event) => setSearch(event.target.value)}
        />
      )}
      <ul>
        {shown.map((pipeline) => (
          <li key={pipeline.file}>
            <Link
              href={startHref(project, pipeline.name)}
              aria-current={pipeline.name === chosen ? "true" : undefined}
            >
              <PipelineName name={pipeline.name} />
              {pipeline.problem === null ? null : (
                <span className="pipeline-problem">
                  <Icon name="warning" size={13} /> has mistakes
                </span>
              )}
              {pipeline.description === null ? null : (
                <span className="faint small pipeline-about">{pipeline.description}</span>
              )}
            </Link>
          </li>
        ))}
      </ul>
      {shown.length === 0 ? <p className="faint">No pipeline matches.</p> : null}
    </nav>
  );
}

/** The folder stands back behind the name of the file. */
function PipelineName({ name }: { name: string }): ReactNode {
  const cut = name.lastIndexOf("/") + 1;
  return (
    <span className="pipeline-name cut">
      <span className="faint">{name.slice(0, cut)}</span>
      {name.slice(cut)}
    </span>
  );
}

function NotChosen({ pipeline }: { pipeline: string | undefined }): ReactNode {
  if (pipeline !== undefined) return <Empty title={`There is no pipeline ${pipeline} here`} />;
  return (
    <Empty title="Choose a pipeline">
      <p>Its input becomes a form. The run belongs to a runner in the background.</p>
    </Empty>
  );
}

function NoPipelines(): ReactNode {
  return (
    <Empty title="No pipelines here">
      <p>
        Pipelines in the folder <code>pipelines</code> appear here, and those that ran before. This
        command writes one:
      </p>
      <CommandLine command="perdure init" />
    </Empty>
  );
}

type ListedPipeline = Doc<"pipelines">["pipelines"][number];

interface StartFormProps {
  readonly project: string;
  readonly pipeline: ListedPipeline;
}

function StartForm({ project, pipeline }: StartFormProps): ReactNode {
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
      // Faults that are shown beside their fields need no other words.
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
