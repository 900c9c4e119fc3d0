/** A question to the person in front of the page; the browser keeps the keyboard inside. */
import { type ReactNode, useEffect, useId, useRef, useState } from "react";
import type { ApiError, Doc } from "../api.ts";
import { asApiError } from "../data.ts";
import { Button, Failure } from "./basics.tsx";
import { say } from "./toast.tsx";

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
