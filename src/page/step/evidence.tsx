/**
 * The attempts of a step, the newest first, and what is known about one of them: its instructions, its
 * checks, its receipt, why it ran, what it changed, and the files that it passed on.
 */
import { type ReactNode, useEffect, useState } from "react";
import { type CommandDoc, type Doc, runPath, useDocument } from "../api.ts";
import { Material } from "../inbox/material.tsx";
import { Copy, Empty, Failure, Loading, Part } from "../parts/basics.tsx";
import { Diff } from "../parts/diff.tsx";
import { Ago, bytesText, Duration, Money } from "../parts/figures.tsx";
import { Icon, markOf, Status, StatusMark } from "../parts/icon.tsx";
import { Json } from "../parts/json.tsx";
import "../styles/inbox.css";

/** What the agent was told, or the command that ran; then the settings of the step. */
export function Task({
  attempt,
  settings,
}: {
  attempt: StepAttempt | undefined;
  settings: Doc<"stepPage">["settings"];
}): ReactNode {
  const prompt = attempt?.prompt ?? null;
  return (
    <div className="evidence">
      {prompt === null ? null : (
        <Part title={attempt?.agent === null ? "Command" : "Prompt"} aside={<Copy text={prompt} />}>
          <pre className="code-block">{prompt}</pre>
        </Part>
      )}
      {Object.keys(settings).length === 0 ? null : (
        <Part title="Settings">
          <Json value={settings} label="the settings" levels={2} />
        </Part>
      )}
    </div>
  );
}

/** What the step asks, with what it shows. */
export function Question({ page }: { page: Doc<"stepPage"> }): ReactNode {
  const { question, run_id } = page;
  if (question === null) return <Empty title="It asks nothing now" />;
  return (
    <div className="evidence">
      <p className="question-text">{question.question}</p>
      <p className="faint">
        {question.answered
          ? "It is answered; the run has not continued yet."
          : `Answers: ${question.choices.map(({ label }) => label).join(", ")}`}
      </p>
      <Material run={run_id} step={question.step} />
    </div>
  );
}

export function Checks({ checks }: { checks: StepAttempt["checks"] }): ReactNode {
  if (checks.length === 0) return <Empty title="This attempt was not checked" />;
  return (
    <ol className="checks">
      {checks.map((check, index) => (
        <li key={index} className="evidence-part">
          <header>
            <Status
              status={check.passed ? "completed" : "failed"}
              word={check.passed ? "passed" : "failed"}
            />
            <h2>
              <code>{check.name}</code>
            </h2>
            {check.exit === null ? null : <span className="faint">exit {check.exit}</span>}
          </header>
          {check.message === null ? null : <pre className="code-block">{check.message}</pre>}
          <Json value={check.evidence} label="the evidence" />
        </li>
      ))}
    </ol>
  );
}

export function Receipt({ receipt }: { receipt: StepAttempt["receipt"] }): ReactNode {
  if (receipt === null) return <Empty title="An attempt has a receipt when it has ended" />;
  return (
    <div className="evidence">
      <Json value={receipt} label="the receipt" levels={3} />
    </div>
  );
}

/** Why each attempt was started, what holds now, and the messages of people. */
export function Why({ page }: { page: Doc<"stepPage"> }): ReactNode {
  return (
    <div className="evidence">
      <pre className="code-block">{page.explained.join("\n")}</pre>
      {page.messages.length === 0 ? null : (
        <Part title="Messages to the agent">
          <ul className="messages">
            {page.messages.map(({ id, text, by, delivered }) => (
              <li key={id}>
                <p>{text}</p>
                <p className="faint small">
                  {by}, {delivered ? "delivered" : "not delivered yet"}
                </p>
              </li>
            ))}
          </ul>
        </Part>
      )}
    </div>
  );
}

export function Changes({ run, attempt }: { run: string; attempt: StepAttempt }): ReactNode {
  const { from, to } = attempt;
  const isKnown = from !== null && to !== null;
  if (!isKnown) {
    return (
      <Empty
        title={
          attempt.ended_at === null
            ? "The files are compared when the attempt has ended"
            : "There is no snapshot of the files of this attempt"
        }
      />
    );
  }
  return <DiffBetween run={run} from={from} to={to} />;
}

/** What changed between two checkpoints: names as `perdure diff` takes them. */
function DiffBetween(props: { run: string; from: string; to: string }): ReactNode {
  const { run, from, to } = props;
  const { data, error } = useDocument<CommandDoc<"diff">>(runPath(run, "diff"), {
    from,
    to,
    patch: 1,
  });
  if (error !== undefined) return <Failure error={error} />;
  if (data === undefined) return <Loading lines={6} />;
  const { files, context, patch, patch_cut } = data;
  const hasContext =
    Object.keys(context.added).length +
      Object.keys(context.changed).length +
      context.removed.length >
    0;
  if (files.length === 0 && !hasContext) return <Empty title="Nothing changed" />;
  return (
    <div className="evidence">
      {files.length === 0 ? (
        <p className="faint">No file changed.</p>
      ) : (
        <Diff files={files} patch={patch} isCut={patch_cut} label="Changes" />
      )}
      {hasContext ? (
        <Part title="Context">
          <Json value={context} label="the changes of the context" levels={2} />
        </Part>
      ) : null}
    </div>
  );
}

type Artifact = Doc<"stepPage">["artifacts"][number];

/** A longer file is only offered as a download. */
const PREVIEW_BYTES_MAX = 256 * 1024;

export function Artifacts(props: { run: string; artifacts: readonly Artifact[] }): ReactNode {
  const { run, artifacts } = props;
  if (artifacts.length === 0) return <Empty title="The step passed no files on" />;
  return (
    <ul className="artifacts">
      {artifacts.map((artifact) => (
        <li key={`${artifact.sha256} ${artifact.path}`} className="evidence-part">
          <header>
            <Icon name="file" />
            <h2 className="cut">{artifact.path}</h2>
            <span className="faint figure">{bytesText(artifact.bytes)}</span>
            <a className="button" href={contentPath(run, artifact)} download={nameOf(artifact)}>
              Download
            </a>
          </header>
          <ArtifactPreview run={run} artifact={artifact} />
        </li>
      ))}
    </ul>
  );
}

function contentPath(run: string, { sha256 }: Artifact): string {
  return runPath(run, `artifact/${sha256}`);
}

function nameOf({ path }: Artifact): string {
  return path.split("/").at(-1) ?? path;
}

function ArtifactPreview({ run, artifact }: { run: string; artifact: Artifact }): ReactNode {
  const { media, bytes } = artifact;
  const path = contentPath(run, artifact);
  if (media.startsWith("image/")) {
    return <img className="artifact-image" src={path} alt={`Content of ${artifact.path}`} />;
  }
  const isText = media.startsWith("text/") || media.includes("json");
  if (!isText || bytes > PREVIEW_BYTES_MAX) return null;
  return <TextPreview path={path} isJson={/\.json$/i.test(artifact.path)} />;
}

function TextPreview({ path, isJson }: { path: string; isJson: boolean }): ReactNode {
  const [text, setText] = useState<string>();
  useEffect(() => {
    const controller = new AbortController();
    fetch(path, { credentials: "same-origin", signal: controller.signal })
      .then(async (response) => {
        const isShown = response.ok && response.headers.get("content-type")?.startsWith("text/");
        setText(isShown === true ? await response.text() : "");
      })
      .catch(() => setText(""));
    return () => controller.abort();
  }, [path]);
  if (text === undefined || text === "") return null;
  const value = isJson ? parsed(text) : undefined;
  return value === undefined ? (
    <pre className="code-block">{text}</pre>
  ) : (
    <Json value={value} label="the file" />
  );
}

function parsed(text: string): Doc<"stepPage">["settings"][string] | undefined {
  try {
    return JSON.parse(text) as Doc<"stepPage">["settings"][string];
  } catch {
    return undefined;
  }
}

export type StepAttempt = Doc<"stepPage">["attempts"][number];

interface AttemptListProps {
  readonly attempts: readonly StepAttempt[];
  readonly chosen: string;
  readonly onChoose: (name: string) => void;
}

/** A list beside the details; on a phone, a field to choose from. */
export function AttemptList({ attempts, chosen, onChoose }: AttemptListProps): ReactNode {
  return (
    <nav className="attempts" aria-label="Attempts">
      <h2>{attempts.length === 1 ? "1 attempt" : `${attempts.length} attempts`}</h2>
      <select
        aria-label="Attempt"
        value={chosen}
        onChange={(event) => onChoose(event.target.value)}
      >
        {attempts.map(({ name, visit, attempt, status }) => (
          <option key={name} value={name}>
            Visit {visit}, attempt {attempt}: {status}
          </option>
        ))}
      </select>
      <ol>
        {attempts.map((attempt, index) => (
          <li key={attempt.name}>
            {attempt.visit === attempts[index - 1]?.visit ? null : <h3>Visit {attempt.visit}</h3>}
            <button
              type="button"
              aria-pressed={attempt.name === chosen}
              onClick={() => onChoose(attempt.name)}
            >
              <AttemptLines attempt={attempt} />
            </button>
          </li>
        ))}
      </ol>
    </nav>
  );
}

function AttemptLines({ attempt }: { attempt: StepAttempt }): ReactNode {
  const { status, started_at, ended_at, worked_ms, spent } = attempt;
  return (
    <>
      <StatusMark status={markOf(status)} />
      <span className="attempt-name">
        Attempt {attempt.attempt} <span className="faint">{status}</span>
      </span>
      <span className="attempt-figures">
        {ended_at === null ? <Duration runningSince={started_at} /> : <Duration ms={worked_ms} />}
        {spent?.cost_usd === undefined ? null : <Money usd={spent.cost_usd} />}
        <Ago time={started_at} />
      </span>
    </>
  );
}
