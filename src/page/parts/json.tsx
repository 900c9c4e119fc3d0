/** A JSON value as a tree that opens where a person wants to look; all of it can be copied. */
import { type ReactNode, useState } from "react";
import { Button, Copy } from "./basics.tsx";
import "../styles/json.css";

/** So many entries of a list or an object are shown at once. */
const ENTRIES_MAX = 100;
/** Longer texts are shown when a person asks. */
const TEXT_MAX = 400;

interface JsonProps {
  readonly value: unknown;
  /** What it is, for the copy button. */
  readonly label: string;
  /** How many levels are open at first. */
  readonly levels?: number;
}

/** The tree with a copy button. */
export function Json({ value, label, levels = 1 }: JsonProps): ReactNode {
  return (
    <div className="json mono">
      <span className="json-copy">
        <Copy text={JSON.stringify(value, null, 2) ?? ""} label={`Copy ${label}`} />
      </span>
      <Value value={value} levels={levels} />
    </div>
  );
}

interface ValueProps {
  readonly value: unknown;
  readonly levels: number;
  readonly name?: string;
}

function Value({ value, levels, name }: ValueProps): ReactNode {
  if (typeof value === "object" && value !== null && Object.keys(value).length > 0) {
    return <Entries value={value} levels={levels} name={name ?? ""} />;
  }
  return (
    <div className="json-entry">
      <Name name={name ?? ""} />
      {typeof value === "string" ? <Text text={value} /> : <Simple value={value} />}
    </div>
  );
}

function Entries(props: { value: object; levels: number; name: string }): ReactNode {
  const { value, levels, name } = props;
  const [isOpen, setOpen] = useState(levels > 0);
  const [limit, setLimit] = useState(ENTRIES_MAX);
  const entries = Object.entries(value);
  const left = entries.length - limit;
  return (
    <details open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <Name name={name} />
        <span className="faint">{sizeText(value, entries.length)}</span>
      </summary>
      {isOpen ? (
        <div className="json-inner">
          {entries.slice(0, limit).map(([key, inner]) => (
            <Value key={key} name={key} value={inner} levels={levels - 1} />
          ))}
          {left > 0 ? (
            <Button look="quiet" onClick={() => setLimit(limit + ENTRIES_MAX)}>
              Show {Math.min(left, ENTRIES_MAX)} more of {left}
            </Button>
          ) : null}
        </div>
      ) : null}
    </details>
  );
}

function sizeText(value: object, count: number): string {
  if (Array.isArray(value)) return count === 1 ? "1 entry" : `${count} entries`;
  return count === 1 ? "1 key" : `${count} keys`;
}

function Name({ name }: { name: string }): ReactNode {
  return name === "" ? null : <span className="json-name">{name}</span>;
}

function Simple({ value }: { value: unknown }): ReactNode {
  return (
    <span className="json-value" data-type={value === null ? "null" : typeof value}>
      {JSON.stringify(value) ?? "undefined"}
    </span>
  );
}

function Text({ text }: { text: string }): ReactNode {
  const [isWhole, setWhole] = useState(false);
  const isLong = text.length > TEXT_MAX && !isWhole;
  return (
    <span className="json-value" data-type="string">
      {isLong ? `${text.slice(0, TEXT_MAX)}…` : text === "" ? '""' : text}
      {isLong ? (
        <Button look="quiet" onClick={() => setWhole(true)}>
          Show all {text.length.toLocaleString("en")} characters
        </Button>
      ) : null}
    </span>
  );
}
