/**
 * All runs of this machine, live: which one needs me, and where is the one that I look for? Search and
 * filters are kept in the address, so that a link and the back button bring them back.
 */
import { type ReactNode, useCallback, useEffect, useMemo, useRef, useState } from "react";
import { Link, useLocation, useSearchParams } from "wouter";
import {
  type ApiError,
  address,
  asApiError,
  type Doc,
  type RunStatus,
  read,
  useMayAct,
  useServer,
} from "../api.ts";
import { useLive } from "../live.ts";
import { Button, CommandLine, Empty, Failure, Loading } from "../parts/basics.tsx";
import { countText } from "../parts/figures.tsx";
import { Icon, tintOf } from "../parts/icon.tsx";
import {
  filterOf,
  isOpen,
  paramsOf,
  type RunFilter,
  type RunRows,
  STATUSES,
  withChanges,
} from "./run-filter.ts";
import { RunTable } from "./run-table.tsx";
import "../styles/runs.css";
import { useKeys } from "../browser.ts";

/** Runs that can be compared at once. */
const COMPARED = 2;

export function RunsPage(): ReactNode {
  const [filter, change] = useRunFilter();
  const { list, error, isOld, more } = useRunList(filter);
  const [chosen, setChosen] = useState<readonly string[]>([]);
  const choose = useCallback((run: string) => {
    setChosen((before) =>
      before.includes(run)
        ? before.filter((other) => other !== run)
        : [...before, run].slice(-COMPARED),
    );
  }, []);
  const projects = useProjectNames();
  const isEmpty = list?.runs.length === 0;
  return (
    <>
      <header className="page-head">
        <h1>Runs</h1>
        <span className="faint figure">{list === undefined ? "" : countText(list.total)}</span>
        <RunsActions chosen={chosen} />
      </header>
      {error === undefined ? null : <Failure error={error} />}
      {isEmpty && isOpen(filter) ? null : (
        <FilterBar filter={filter} onChange={change} list={list} projects={projects} />
      )}
      {list === undefined && error === undefined ? <Loading lines={8} /> : null}
      {isEmpty ? (
        <NoRuns isFiltered={!isOpen(filter)} />
      ) : list === undefined ? null : (
        <div className="run-list" data-old={isOld} aria-busy={isOld}>
          <RunTable
            rows={list.runs}
            total={list.total}
            projects={projects}
            chosen={chosen}
            onChoose={choose}
            onMore={more}
          />
        </div>
      )}
    </>
  );
}

/** The names of the projects by key; empty when there is only one. */
function useProjectNames(): ReadonlyMap<string, string> {
  const projects = useServer()?.projects;
  return useMemo(() => {
    const all = (projects ?? []).map(({ project, name }) => [project, name] as const);
    return new Map(all.length > 1 ? all : []);
  }, [projects]);
}

function RunsActions({ chosen }: { chosen: readonly string[] }): ReactNode {
  const [, go] = useLocation();
  const mayAct = useMayAct();
  const [left, right] = chosen;
  return (
    <div className="actions">
      <Button
        icon="compare"
        className="button compare-button"
        disabled={right === undefined}
        title="Choose two runs in the table to compare them"
        onClick={() => go(address("/compare", { left, right }))}
      >
        {chosen.length === 1 ? "Compare (choose one more)" : "Compare"}
      </Button>
      {mayAct ? (
        <Link className="button" data-look="primary" href="/start">
          <Icon name="start" />
          Start a run
        </Link>
      ) : null}
    </div>
  );
}

function NoRuns({ isFiltered }: { isFiltered: boolean }): ReactNode {
  const mayAct = useMayAct();
  if (isFiltered) {
    return (
      <Empty title="No run matches">
        <p>
          <Link href="/">Show all runs</Link>
        </p>
      </Empty>
    );
  }
  return (
    <Empty title="No runs yet">
      <p>Start a pipeline in a terminal, and it appears here:</p>
      <CommandLine command="perdure run pipeline.yaml" />
      <p>No pipeline at hand? This command writes one:</p>
      <CommandLine command="perdure init" />
      {mayAct ? (
        <p>
          or <Link href="/start">start one from this page</Link>
        </p>
      ) : null}
    </Empty>
  );
}

const ROWS_PER_PAGE = 200;

interface RunList {
  /** What was read; undefined before the first answer. */
  readonly list: RunRows | undefined;
  readonly error: ApiError | undefined;
  /** What is shown belongs to an earlier filter. */
  readonly isOld: boolean;
  /** Reads the next page, if there is one. */
  readonly more: () => void;
}

/** The runs that the filter lets through. */
function useRunList(filter: RunFilter): RunList {
  const query = paramsOf(filter);
  const key = JSON.stringify(query);
  const [loaded, setLoaded] = useState<{ key: string; list: RunRows }>();
  const [error, setError] = useState<ApiError>();
  const isReading = useRef(false);
  const latest = useRef({ key, filter });
  latest.current = { key, filter };

  useEffect(() => {
    const controller = new AbortController();
    const first = { ...(JSON.parse(key) as Record<string, string>), limit: ROWS_PER_PAGE };
    read<RunRows>("/api/runs", first, controller.signal)
      .then((list) => {
        setLoaded({ key, list });
        setError(undefined);
      })
      .catch((failure: unknown) => {
        if (!controller.signal.aborted) setError(asApiError(failure));
      });
    return () => controller.abort();
  }, [key]);

  const next = loaded?.key === key ? (loaded.list.next ?? undefined) : undefined;
  const more = useCallback(() => {
    if (next === undefined || isReading.current) return;
    isReading.current = true;
    const after = { ...(JSON.parse(key) as Record<string, string>), cursor: next };
    read<RunRows>("/api/runs", { ...after, limit: ROWS_PER_PAGE })
      .then((page) => {
        setLoaded((before) =>
          before?.key === key ? { key, list: joined(before.list, page) } : before,
        );
      })
      .catch((failure: unknown) => setError(asApiError(failure)))
      .finally(() => {
        isReading.current = false;
      });
  }, [key, next]);

  useLive<Doc<"runChanges">>(
    loaded === undefined ? undefined : { path: "/api/runs/changes", event: "runs" },
    (changes) => {
      setLoaded((before) =>
        before?.key === latest.current.key
          ? { ...before, list: withChanges(before.list, changes, latest.current.filter) }
          : before,
      );
    },
  );
  return { list: loaded?.list, error, isOld: loaded !== undefined && loaded.key !== key, more };
}

function joined(before: RunRows, page: RunRows): RunRows {
  const known = new Set(before.runs.map(({ run_id: id }) => id));
  const added = page.runs.filter(({ run_id: id }) => !known.has(id));
  return { ...page, runs: [...before.runs, ...added] };
}

/** The list is read again when a person has stopped typing for this long. */
const TYPING_MS = 150;

/** The filter in the address, and how to change it. */
function useRunFilter(): readonly [
  RunFilter,
  (change: Partial<RunFilter>, isTyped?: "typed") => void,
] {
  const [params, setParams] = useSearchParams();
  const text = params.toString();
  const filter = useMemo(() => filterOf(new URLSearchParams(text)), [text]);
  const change = (next: Partial<RunFilter>, isTyped?: "typed"): void => {
    // What a person types letter by letter is one step of the back button.
    setParams(paramsOf({ ...filter, ...next }), { replace: isTyped === "typed" });
  };
  return [filter, change];
}

interface FilterBarProps {
  readonly filter: RunFilter;
  readonly onChange: (change: Partial<RunFilter>, isTyped?: "typed") => void;
  readonly list: Doc<"runRows"> | undefined;
  readonly projects: ReadonlyMap<string, string>;
}

function FilterBar({ filter, onChange, list, projects }: FilterBarProps): ReactNode {
  const pipelines = list?.pipelines ?? [];
  return (
    <search className="filter-bar">
      <SearchField value={filter.q} onChange={(q) => onChange({ q }, "typed")} />
      <StatusChips
        chosen={filter.status}
        counts={list?.by_status ?? {}}
        onChange={(status) => onChange({ status })}
      />
      <div className="filter-selects">
        <Choice
          label="Pipeline"
          all="All pipelines"
          value={filter.pipeline}
          options={pipelines.map((name) => [name, name])}
          onChange={(pipeline) => onChange({ pipeline })}
        />
        {projects.size > 1 ? (
          <Choice
            label="Project"
            all="All projects"
            value={filter.project}
            options={[...projects]}
            onChange={(project) => onChange({ project })}
          />
        ) : null}
      </div>
    </search>
  );
}

function SearchField(props: { value: string; onChange: (text: string) => void }): ReactNode {
  const { value, onChange } = props;
  const [text, setText] = useState(value);
  const field = useRef<HTMLInputElement>(null);
  const timer = useRef<number>(undefined);
  useKeys({ "/": () => field.current?.focus() });
  // The back button changes the address, and the field follows.
  useEffect(() => setText(value), [value]);
  // A page that was left must not change the address of the next one.
  useEffect(() => () => window.clearTimeout(timer.current), []);
  const type = (next: string): void => {
    setText(next);
    window.clearTimeout(timer.current);
    if (next.trim() === value) return;
    timer.current = window.setTimeout(() => onChange(next.trim()), TYPING_MS);
  };
  return (
    <label className="search-field">
      <Icon name="search" size={14} />
      <span className="hidden-text">Search runs</span>
      <input
        ref={field}
        type="search"
        value={text}
        placeholder="Search id, pipeline, step, input"
        onChange={(event) => type(event.target.value)}
        onKeyDown={(event) => {
          if (event.key !== "Escape") return;
          type("");
          event.currentTarget.blur();
        }}
      />
      <span className="key" aria-hidden="true">
        <kbd>/</kbd>
      </span>
    </label>
  );
}

interface ChipsProps {
  readonly chosen: readonly RunStatus[];
  readonly counts: Readonly<Record<string, number>>;
  readonly onChange: (status: readonly RunStatus[]) => void;
}

function StatusChips({ chosen, counts, onChange }: ChipsProps): ReactNode {
  const all = Object.values(counts).reduce((sum, count) => sum + count, 0);
  const toggle = (status: RunStatus): void => {
    const isChosen = chosen.includes(status);
    onChange(isChosen ? chosen.filter((other) => other !== status) : [...chosen, status]);
  };
  return (
    <fieldset className="chips">
      <legend className="hidden-text">State</legend>
      <button type="button" aria-pressed={chosen.length === 0} onClick={() => onChange([])}>
        All <span className="figure">{countText(all)}</span>
      </button>
      {STATUSES.filter(
        (status) => status !== "queued" || chosen.includes(status) || (counts[status] ?? 0) > 0,
      ).map((status) => (
        <button
          key={status}
          type="button"
          data-tint={tintOf(status)}
          aria-pressed={chosen.includes(status)}
          onClick={() => toggle(status)}
        >
          <span className="chip-dot" aria-hidden="true" />
          {status} <span className="figure">{countText(counts[status] ?? 0)}</span>
        </button>
      ))}
    </fieldset>
  );
}

interface ChoiceProps {
  readonly label: string;
  readonly all: string;
  readonly value: string;
  readonly options: readonly (readonly [value: string, label: string])[];
  readonly onChange: (value: string) => void;
}

function Choice({ label, all, value, options, onChange }: ChoiceProps): ReactNode {
  return (
    <select aria-label={label} value={value} onChange={(event) => onChange(event.target.value)}>
      <option value="">{all}</option>
      {options.map(([name, text]) => (
        <option key={name} value={name}>
          {text}
        </option>
      ))}
    </select>
  );
}
