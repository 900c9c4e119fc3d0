/** What is known about an attempt: what it was told, its checks, its receipt, and why it ran. */
import type { ReactNode } from "react";
import type { Doc } from "../api.ts";
import { Material } from "../inbox/material.tsx";
import { Copy, Empty } from "../parts/basics.tsx";
import { Json } from "../parts/json.tsx";
import { Status } from "../parts/status.tsx";
import type { StepAttempt } from "./attempt-list.tsx";
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
        <section className="evidence-part">
          <header>
            <h2>{attempt?.agent === null ? "Command" : "Prompt"}</h2>
            <Copy text={prompt} />
          </header>
          <pre className="code-block">{prompt}</pre>
        </section>
      )}
      {Object.keys(settings).length === 0 ? null : (
        <section className="evidence-part">
          <header>
            <h2>Settings</h2>
          </header>
          <Json value={settings} label="the settings" levels={2} />
        </section>
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
        <section className="evidence-part">
          <header>
            <h2>Messages to the agent</h2>
          </header>
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
        </section>
      )}
    </div>
  );
}
