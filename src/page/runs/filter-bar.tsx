/**
 * Search and filters above the table of runs, kept in the address, so that a link and the back
 * button bring them back.
 */
import { type ReactNode, useEffect, useMemo, useRef, useState } from "react";
import { useSearchParams } from "wouter";
import type { Doc, RunStatus } from "../api.ts";
import { useKeys } from "../browser.ts";
import { countText } from "../parts/figures.tsx";
import { Icon } from "../parts/icon.tsx";
import { tintOf } from "../parts/status.tsx";
import { filterOf, paramsOf, type RunFilter, STATUSES } from "./run-filter.ts";

/** The list is read again when a person has stopped typing for this long. */
const TYPING_MS = 150;

/** The filter in the address, and how to change it. */
export function useRunFilter(): readonly [
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

export function FilterBar({ filter, onChange, list, projects }: FilterBarProps): ReactNode {
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
