/**
 * What a person can do about a step, each in a dialog that says what will happen: retry, skip,
 * settle, answer, send a message, rewind and fork.
 */
import { type ReactNode, useId, useState } from "react";
import { useLocation } from "wouter";
import { type Doc, post, runPath, type StepRow, useMayAct } from "../api.ts";
import { runHref } from "../links.ts";
import { Button } from "../parts/basics.tsx";
import { ActionDialog, Check, Choices, PreviewDialog } from "../parts/dialog.tsx";
import type { IconName } from "../parts/icon.tsx";

type StepDoc = Doc<"stepPage">;

interface StepActionsProps {
  readonly page: StepDoc;
  readonly onDone: () => void;
}

interface DialogProps extends StepActionsProps {
  readonly onClose: () => void;
}

interface Action {
  readonly label: string;
  readonly icon: IconName;
  readonly look?: "primary";
  readonly isOffered: (page: StepDoc) => boolean;
  readonly Dialog: (props: DialogProps) => ReactNode;
}

const ENDED: readonly StepRow["status"][] = ["completed", "failed", "skipped"];

const ACTIONS: readonly Action[] = [
  {
    label: "Answer",
    icon: "question",
    look: "primary",
    isOffered: ({ question }) => question !== null && !question.answered,
    Dialog: AnswerDialog,
  },
  {
    label: "Settle",
    icon: "check",
    look: "primary",
    isOffered: ({ attempts }) => attempts[0]?.status === "uncertain",
    Dialog: SettleDialog,
  },
  {
    label: "Send a message",
    icon: "message",
    isOffered: ({ row, attempts }) =>
      attempts[0]?.agent !== undefined && attempts[0].agent !== null && !ENDED.includes(row.status),
    Dialog: MessageDialog,
  },
  {
    label: "Retry",
    icon: "retry",
    isOffered: ({ row, attempts }) => attempts.length > 0 && row.status !== "running",
    Dialog: RetryDialog,
  },
  {
    label: "Skip",
    icon: "skip",
    isOffered: ({ row }) => !["running", "completed", "skipped"].includes(row.status),
    Dialog: (props) => <SkipDialog run={props.page.run_id} step={props.page.row.step} {...props} />,
  },
  {
    label: "Rewind to here",
    icon: "rewind",
    isOffered: ({ attempts }) => attempts.length > 0,
    Dialog: (props) => <RewindDialog run={props.page.run_id} to={props.page.row.step} {...props} />,
  },
  {
    label: "Fork from here",
    icon: "fork",
    isOffered: ({ attempts }) => attempts.length > 0,
    Dialog: (props) => <ForkDialog run={props.page.run_id} at={props.page.row.step} {...props} />,
  },
];

export function StepActions({ page, onDone }: StepActionsProps): ReactNode {
  const mayAct = useMayAct();
  const [open, setOpen] = useState<Action>();
  if (!mayAct) return null;
  return (
    <div className="actions">
      {ACTIONS.filter(({ isOffered }) => isOffered(page)).map((action) => (
        <Button
          key={action.label}
          icon={action.icon}
          look={action.look ?? "plain"}
          onClick={() => setOpen(action)}
        >
          {action.label}
        </Button>
      ))}
      {open === undefined ? null : (
        <open.Dialog page={page} onDone={onDone} onClose={() => setOpen(undefined)} />
      )}
    </div>
  );
}

/** Undefined: as usual for the workspace of the run. */
type FilesChoice = "restore" | "keep" | undefined;

const FILES_CHOICES = [
  [undefined, "As usual: restored in a workspace of the run, kept in the project itself"],
  ["restore", "Restore them as they were before the step"],
  ["keep", "Keep them as they are now"],
] as const;

interface FilesFieldProps {
  readonly files: FilesChoice;
  readonly onChoose: (files: FilesChoice) => void;
}

/** What happens to the files of the workspace. */
function FilesField({ files, onChoose }: FilesFieldProps): ReactNode {
  return <Choices legend="Files" choices={FILES_CHOICES} chosen={files} onChoose={onChoose} />;
}

/** Effects that must happen once happen again only if a person says so. */
function OnceField(props: { agreed: boolean; onChange: (agreed: boolean) => void }): ReactNode {
  return (
    <Check isOn={props.agreed} onChange={props.onChange}>
      Effects that must happen once may happen again
    </Check>
  );
}

function RetryDialog({ page, onDone, onClose }: DialogProps): ReactNode {
  const { row, run_id } = page;
  const [files, setFiles] = useState<FilesChoice>();
  const [agreed, setAgreed] = useState(false);
  const [which, setWhich] = useState<WhichItems>((row.items?.failed ?? 0) > 0 ? "failed" : "all");
  const [items, setItems] = useState("");
  // The files of single items cannot be restored.
  const chosen = {
    all: { files },
    failed: { failed: true },
    some: { items: numbersIn(items) },
  }[which];
  return (
    <PreviewDialog
      title={`Retry ${row.step}`}
      verb="Retry"
      path={runPath(run_id, "retry")}
      body={{ step: row.step, ...chosen, ...(agreed ? { agreed } : {}) }}
      onClose={onClose}
      onDone={onDone}
    >
      <p>The step runs again, and every step after it.</p>
      {row.items === null ? null : (
        <ItemsField
          failed={row.items.failed}
          which={which}
          onChoose={setWhich}
          items={items}
          onItems={setItems}
        />
      )}
      {which === "all" ? <FilesField files={files} onChoose={setFiles} /> : null}
      <OnceField agreed={agreed} onChange={setAgreed} />
    </PreviewDialog>
  );
}

type WhichItems = "all" | "failed" | "some";

interface ItemsFieldProps {
  readonly failed: number;
  readonly which: WhichItems;
  readonly onChoose: (which: WhichItems) => void;
  readonly items: string;
  readonly onItems: (items: string) => void;
}

function ItemsField({ failed, which, onChoose, items, onItems }: ItemsFieldProps): ReactNode {
  const label = failed === 1 ? "The failed item" : `The ${failed} failed items`;
  const choices = [
    ["all", "All items"] as const,
    ...(failed === 0 ? [] : [["failed", label] as const]),
    ["some", "These items:"] as const,
  ];
  return (
    <Choices legend="Items" choices={choices} chosen={which} onChoose={onChoose}>
      <input
        aria-label="Numbers of items"
        placeholder="0, 3, 7"
        value={items}
        onFocus={() => onChoose("some")}
        onChange={(event) => onItems(event.target.value)}
      />
    </Choices>
  );
}

function numbersIn(text: string): readonly number[] {
  return [...text.matchAll(/\d+/g)].map(([number]) => Number(number));
}

interface SkipProps extends PointDialogProps {
  readonly step: string;
}

export function SkipDialog({ run, step, onDone, onClose }: SkipProps): ReactNode {
  return (
    <ActionDialog
      title={`Skip ${step}`}
      verb="Skip"
      onClose={onClose}
      onDone={onDone}
      act={() => post(runPath(run, "skip"), { step })}
    >
      <p>
        The run continues as if the step were not there. Steps after it start without its result.
      </p>
    </ActionDialog>
  );
}

const VERDICTS = [
  ["done", "It happened: count the step as completed"],
  ["redo", "It did not happen: do it again"],
  ["abort", "Give it up: count the step as failed"],
] as const;

function SettleDialog({ page, onDone, onClose }: DialogProps): ReactNode {
  const { row, run_id, attempts } = page;
  const [as, setAs] = useState<(typeof VERDICTS)[number][0]>("done");
  return (
    <ActionDialog
      title={`Settle ${row.step}`}
      verb="Settle"
      onClose={onClose}
      onDone={onDone}
      act={() => post(runPath(run_id, "settle"), { step: row.step, as })}
    >
      <p>
        Nobody knows whether the effect of this step happened. Look at the world, then say what you
        found.
      </p>
      {attempts[0]?.message == null ? null : <p className="faint">{attempts[0].message}</p>}
      <Choices legend="What happened" choices={VERDICTS} chosen={as} onChoose={setAs} />
    </ActionDialog>
  );
}

function MessageDialog({ page, onDone, onClose }: DialogProps): ReactNode {
  const { row, run_id } = page;
  const [text, setText] = useState("");
  const id = useId();
  return (
    <ActionDialog
      title={`Message to the agent of ${row.step}`}
      verb="Send"
      onClose={onClose}
      onDone={onDone}
      act={() => post(runPath(run_id, "message"), { step: row.step, text })}
    >
      <div className="field">
        <label htmlFor={id}>Message</label>
        <textarea id={id} value={text} onChange={(event) => setText(event.target.value)} />
        <span className="hint">The agent reads it before its next turn, once.</span>
      </div>
    </ActionDialog>
  );
}

function AnswerDialog({ page, onDone, onClose }: DialogProps): ReactNode {
  const { question, run_id } = page;
  const [choice, setChoice] = useState(question?.choices[0]?.key);
  const [text, setText] = useState("");
  const id = useId();
  if (question === null) return null;
  const given = text === "" ? {} : { text };
  return (
    <ActionDialog
      title="Answer"
      verb="Answer"
      onClose={onClose}
      onDone={onDone}
      act={() => post(runPath(run_id, "answer"), { step: question.step, choice, ...given })}
    >
      <p className="question-text">{question.question}</p>
      <Choices
        legend="Choice"
        choices={question.choices.map(({ key, label }) => [key, label] as const)}
        chosen={choice}
        onChoose={setChoice}
      />
      {question.text === "none" ? null : (
        <div className="field">
          <label htmlFor={id}>Text{question.text === "required" ? "" : " (optional)"}</label>
          <textarea id={id} value={text} onChange={(event) => setText(event.target.value)} />
        </div>
      )}
    </ActionDialog>
  );
}

interface PointDialogProps {
  readonly run: string;
  readonly onDone: () => void;
  readonly onClose: () => void;
}

/** Returns to before a step or a visit. */
export function RewindDialog(props: PointDialogProps & { to: string }): ReactNode {
  const { run, to, onDone, onClose } = props;
  const [files, setFiles] = useState<FilesChoice>();
  const [agreed, setAgreed] = useState(false);
  return (
    <PreviewDialog
      title={`Rewind to before ${to}`}
      verb="Rewind"
      look="danger"
      path={runPath(run, "rewind")}
      body={{ to, files, ...(agreed ? { agreed } : {}) }}
      onClose={onClose}
      onDone={onDone}
    >
      <p>The run returns to before this step. Nothing starts until you resume it.</p>
      <FilesField files={files} onChoose={setFiles} />
      <OnceField agreed={agreed} onChange={setAgreed} />
    </PreviewDialog>
  );
}

/** Starts a new run from before a step or a visit; the page of the new run opens. */
export function ForkDialog(props: PointDialogProps & { at: string }): ReactNode {
  const { run, at, onDone, onClose } = props;
  const [start, setStart] = useState(true);
  const [, go] = useLocation();
  return (
    <PreviewDialog
      title={`Fork from before ${at}`}
      verb="Fork"
      path={runPath(run, "fork")}
      body={{ at, start }}
      onClose={onClose}
      onDone={(done) => {
        onDone();
        go(runHref(done.run_id));
      }}
    >
      <p>
        A new run begins with everything that was done before this step. This run stays as it is.
      </p>
      <Check isOn={start} onChange={setStart}>
        Start the new run at once
      </Check>
    </PreviewDialog>
  );
}
