/**
 * What appears above a page: a question to the person in front of it, and short messages at its edge,
 * which readers of the screen hear too. The browser keeps the keyboard inside a question. A change that
 * the server can describe before it happens is previewed: what runs again, what is kept, what happens
 * to files.
 */
import { type ReactNode, useEffect, useId, useRef, useState, useSyncExternalStore } from "react";
import { type ApiError, asApiError, type Doc, post } from "../api.ts";
import { Button, Failure, Loading } from "./basics.tsx";
import "../styles/preview.css";

interface DialogProps {
  readonly title: string;
  readonly onClose: () => void;
  readonly children: ReactNode;
  readonly footer?: ReactNode;
}

export function Dialog({ title, onClose, children, footer }: DialogProps): ReactNode {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    dialog.current?.showModal();
  }, []);
  return (
    <dialog ref={dialog} className="dialog" aria-labelledby={id} onClose={onClose}>
      <header>
        <h2 id={id}>{title}</h2>
        <Button
          icon="cross"
          look="quiet"
          aria-label="Close"
          onClick={() => dialog.current?.close()}
        />
      </header>
      <div className="dialog-body">{children}</div>
      {footer === undefined ? null : <footer>{footer}</footer>}
    </dialog>
  );
}

interface ActionProps {
  readonly title: string;
  readonly verb: string;
  readonly look?: "primary" | "danger";
  readonly onClose: () => void;
  /** Sends the request. */
  readonly act: () => Promise<Doc<"done">>;
  readonly onDone?: (done: Doc<"done">) => void;
  /** The request would be refused. */
  readonly isBlocked?: boolean;
  readonly children: ReactNode;
}

/** A dialog whose button sends a request; a refusal is shown in it, with what helps. */
export function ActionDialog(props: ActionProps): ReactNode {
  const { title, verb, look = "primary", onClose, act, onDone, children } = props;
  const { isBlocked = false } = props;
  const [error, setError] = useState<ApiError>();
  const [isBusy, setBusy] = useState(false);
  const send = async (): Promise<void> => {
    setBusy(true);
    try {
      const done = await act();
      if (done.lines.length > 0) say(done.lines.join(" "));
      onDone?.(done);
      onClose();
    } catch (failure) {
      setError(asApiError(failure));
    } finally {
      setBusy(false);
    }
  };
  return (
    <Dialog
      title={title}
      onClose={onClose}
      footer={
        <>
          <Button look="quiet" onClick={onClose}>
            Cancel
          </Button>
          <Button look={look} disabled={isBusy || isBlocked} onClick={() => void send()}>
            {verb}
          </Button>
        </>
      }
    >
      {children}
      {error === undefined ? null : <Failure error={error} />}
    </Dialog>
  );
}

interface PreviewDialogProps {
  readonly title: string;
  readonly verb: string;
  readonly look?: "primary" | "danger";
  /** The address that takes the request. */
  readonly path: string;
  /** The request; the preview follows its changes. */
  readonly body: Readonly<Record<string, unknown>>;
  readonly onClose: () => void;
  readonly onDone?: (done: Doc<"done">) => void;
  /** What a person can choose. */
  readonly children?: ReactNode;
}

export function PreviewDialog(props: PreviewDialogProps): ReactNode {
  const { title, verb, look = "primary", path, body, onClose, onDone, children } = props;
  const { preview, error } = usePreview(path, body);
  return (
    <ActionDialog
      title={title}
      verb={verb}
      look={look}
      onClose={onClose}
      isBlocked={error !== undefined}
      act={() => post(path, body)}
      {...(onDone === undefined ? {} : { onDone })}
    >
      {children}
      {error === undefined ? null : <Failure error={error} />}
      {preview === undefined && error === undefined ? <Loading lines={3} /> : null}
      {preview === undefined ? null : <Preview done={preview} />}
    </ActionDialog>
  );
}

interface PreviewState {
  readonly preview: Doc<"done"> | undefined;
  readonly error: ApiError | undefined;
}

/** What would happen; what is shown stays until the answer to a new choice is there. */
function usePreview(path: string, body: PreviewDialogProps["body"]): PreviewState {
  const [state, setState] = useState<PreviewState>({ preview: undefined, error: undefined });
  const text = JSON.stringify(body);
  useEffect(() => {
    let isCurrent = true;
    post(path, { ...(JSON.parse(text) as object), dry_run: true })
      .then((preview) => {
        if (isCurrent) setState({ preview, error: undefined });
      })
      .catch((failure: unknown) => {
        if (isCurrent) setState({ preview: undefined, error: asApiError(failure) });
      });
    return () => {
      isCurrent = false;
    };
  }, [path, text]);
  return state;
}

const NAMES_MAX = 12;

/** What a request would do, in words and lists. */
function Preview({ done }: { done: Doc<"done"> }): ReactNode {
  const { lines, preview } = done;
  return (
    <div className="preview" aria-live="polite">
      {lines.map((line) => (
        <p key={line}>{line}</p>
      ))}
      {preview === undefined ? null : (
        <>
          <Names title="Runs again" names={preview.runs_again} />
          <Names title="Is kept" names={preview.kept} />
          <Names
            title="Files that change"
            names={preview.files.map(({ path, status }) => `${path} (${status})`)}
          />
          {preview.warnings.map((warning) => (
            <p key={warning} className="preview-warning">
              {warning}
            </p>
          ))}
        </>
      )}
    </div>
  );
}

function Names({ title, names }: { title: string; names: readonly string[] }): ReactNode {
  if (names.length === 0) return null;
  const more = names.length - NAMES_MAX;
  return (
    <section>
      <h3>{title}</h3>
      <ul className="preview-names">
        {names.slice(0, NAMES_MAX).map((name) => (
          <li key={name}>
            <code>{name}</code>
          </li>
        ))}
        {more > 0 ? <li className="faint">and {more} more</li> : null}
      </ul>
    </section>
  );
}

interface ChoicesProps<T> {
  readonly legend: string;
  readonly choices: readonly (readonly [value: T, label: ReactNode])[];
  readonly chosen: T;
  readonly onChoose: (value: T) => void;
  /** What the last choice needs. */
  readonly children?: ReactNode;
}

/** One of several choices; arrow keys move between them. */
export function Choices<T extends string | undefined>(props: ChoicesProps<T>): ReactNode {
  const { legend, choices, chosen, onChoose, children } = props;
  const name = useId();
  return (
    <fieldset className="choices">
      <legend>{legend}</legend>
      {choices.map(([value, label]) => (
        <label key={value ?? ""}>
          <input
            type="radio"
            name={name}
            checked={chosen === value}
            onChange={() => onChoose(value)}
          />
          {label}
        </label>
      ))}
      {children}
    </fieldset>
  );
}

interface CheckProps {
  readonly isOn: boolean;
  readonly onChange: (isOn: boolean) => void;
  readonly children: ReactNode;
}

/** A box to tick. */
export function Check({ isOn, onChange, children }: CheckProps): ReactNode {
  return (
    <label className="check">
      <input type="checkbox" checked={isOn} onChange={(event) => onChange(event.target.checked)} />
      {children}
    </label>
  );
}

interface Message {
  readonly id: number;
  readonly text: string;
  readonly tint: "done" | "failed";
}

const MESSAGE_MS = 6_000;
const MESSAGES_MAX = 4;

let messages: readonly Message[] = [];
let nextId = 1;
const watchers = new Set<() => void>();

function change(next: readonly Message[]): void {
  messages = next;
  for (const watcher of watchers) watcher();
}

/** Shows a message for a few seconds. */
export function say(text: string, tint: Message["tint"] = "done"): void {
  const message = { id: nextId++, text, tint };
  change([...messages, message].slice(-MESSAGES_MAX));
  window.setTimeout(() => change(messages.filter(({ id }) => id !== message.id)), MESSAGE_MS);
}

export function Toasts(): ReactNode {
  const shown = useSyncExternalStore(
    (watcher) => {
      watchers.add(watcher);
      return () => watchers.delete(watcher);
    },
    () => messages,
  );
  return (
    <div className="toasts" role="status" aria-live="polite">
      {shown.map(({ id, text, tint }) => (
        <p key={id} data-tint={tint}>
          {text}
        </p>
      ))}
    </div>
  );
}
