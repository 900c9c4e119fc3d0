/**
 * A dialog for a change that the server can describe before it happens: what runs again, what is
 * kept, what happens to files.
 */
import { type ReactNode, useEffect, useState } from "react";
import { type ApiError, type Doc, post } from "../api.ts";
import { asApiError } from "../data.ts";
import { Failure, Loading } from "./basics.tsx";
import { ActionDialog } from "./dialog.tsx";
import "../styles/preview.css";

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

const SHOWN_MAX = 12;

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
  const more = names.length - SHOWN_MAX;
  return (
    <section>
      <h3>{title}</h3>
      <ul className="preview-names">
        {names.slice(0, SHOWN_MAX).map((name) => (
          <li key={name}>
            <code>{name}</code>
          </li>
        ))}
        {more > 0 ? <li className="faint">and {more} more</li> : null}
      </ul>
    </section>
  );
}
