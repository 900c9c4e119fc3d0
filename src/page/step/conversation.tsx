/** The conversation of an attempt: turns, and tool calls with their results; new ones as they come. */
import { type ReactNode, useEffect, useLayoutEffect, useRef, useState } from "react";
import { type Doc, runPath, useDocument } from "../api.ts";
import { Button, Empty, Failure, Loading } from "../parts/basics.tsx";
import { ClockTime, countText } from "../parts/figures.tsx";
import { Icon } from "../parts/icon.tsx";

type Turn = Doc<"conversation">["turns"][number];
type Call = Turn["calls"][number];

/** How many turns are drawn at first; a person asks for earlier ones. */
const SHOWN = 100;
const END_PX = 40;

interface ConversationProps {
  readonly run: string;
  readonly attempt: string;
  /** Changes when the step has changed: there may be more to read. */
  readonly version: number;
}

export function Conversation({ run, attempt, version }: ConversationProps): ReactNode {
  const { data, error, reload } = useDocument<Doc<"conversation">>(runPath(run, "conversation"), {
    attempt,
  });
  useEffect(() => {
    if (version > 0) reload();
  }, [version]);
  if (error !== undefined) return <Failure error={error} />;
  if (data === undefined) return <Loading lines={8} />;
  if (data.turns.length === 0) {
    return (
      <Empty title={data.ended ? "The agent said nothing" : "The agent has not answered yet"} />
    );
  }
  return <Turns conversation={data} />;
}

function Turns({ conversation }: { conversation: Doc<"conversation"> }): ReactNode {
  const { turns, left_out, ended } = conversation;
  const [isFollowing, setFollowing] = useState(!ended);
  const box = useRef<HTMLDivElement>(null);
  const toEnd = (): void => box.current?.scrollTo({ top: box.current.scrollHeight });
  useLayoutEffect(() => (isFollowing ? toEnd() : undefined), [turns, isFollowing]);
  const count = turns.length + left_out;
  return (
    <div className="conversation">
      <div className="conversation-bar">
        <span className="faint">
          {count} {count === 1 ? "turn" : "turns"}
          {ended ? "" : ", the agent is working"}
        </span>
        <Button look="quiet" onClick={() => box.current?.scrollTo({ top: 0 })}>
          Start
        </Button>
        <Button
          look="quiet"
          aria-pressed={isFollowing}
          onClick={() => {
            setFollowing(true);
            toEnd();
          }}
        >
          {ended ? "End" : "Follow"}
        </Button>
      </div>
      <section
        className="conversation-box"
        ref={box}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: the keyboard scrolls it
        tabIndex={0}
        aria-label="Conversation"
        onScroll={({ currentTarget: { scrollHeight, scrollTop, clientHeight } }) =>
          setFollowing(scrollHeight - scrollTop - clientHeight < END_PX)
        }
      >
        <TurnList turns={turns} leftOut={left_out} />
      </section>
    </div>
  );
}

/** The last turns; earlier ones when a person asks for them. */
function TurnList({ turns, leftOut }: { turns: readonly Turn[]; leftOut: number }): ReactNode {
  const [limit, setLimit] = useState(SHOWN);
  const first = Math.max(0, turns.length - limit);
  return (
    <>
      {first === 0 ? null : (
        <p className="conversation-more">
          <Button onClick={() => setLimit(limit + SHOWN)}>Show earlier turns</Button>
        </p>
      )}
      {first > 0 || leftOut === 0 ? null : (
        <p className="conversation-more faint">{leftOut} earlier turns are not kept here.</p>
      )}
      <ol>
        {turns.slice(first).map((turn, index, shown) => (
          <TurnBlock
            key={first + index + leftOut}
            turn={turn}
            isNewSpeaker={turn.by !== shown[index - 1]?.by}
          />
        ))}
      </ol>
    </>
  );
}

const SPEAKERS = { agent: "Agent", person: "Person", perdure: "Perdure" } as const;

interface TurnBlockProps {
  readonly turn: Turn;
  /** Somebody else spoke before. */
  readonly isNewSpeaker: boolean;
}

function TurnBlock({ turn, isNewSpeaker }: TurnBlockProps): ReactNode {
  const { by, text, calls, tokens, at } = turn;
  return (
    <li className="turn" data-by={by} data-new={isNewSpeaker}>
      <header>
        <h2 className={isNewSpeaker ? "" : "hidden-text"}>{SPEAKERS[by]}</h2>
        {at === null ? null : <ClockTime time={at} />}
        {tokens === null ? null : <span className="figure faint">{countText(tokens)} tokens</span>}
      </header>
      {text === "" ? null : <TurnText text={text} />}
      {calls.map((call, index) => (
        <CallBlock key={index} call={call} />
      ))}
    </li>
  );
}

/** A longer text is shown in part until a person asks for all of it. */
const TEXT_CHARACTERS = 4_000;

function TurnText({ text }: { text: string }): ReactNode {
  const [isWhole, setWhole] = useState(false);
  const isCut = !isWhole && text.length > TEXT_CHARACTERS;
  return (
    <>
      <p className="turn-text">{isCut ? `${text.slice(0, TEXT_CHARACTERS)}…` : text}</p>
      {isCut ? (
        <Button look="quiet" onClick={() => setWhole(true)}>
          Show all {countText(text.length)} characters
        </Button>
      ) : null}
    </>
  );
}

function CallBlock({ call }: { call: Call }): ReactNode {
  const { name, input, result, ok } = call;
  const state = ok === null ? "running" : ok ? "done" : "failed";
  return (
    <details className="call" data-tint={state}>
      <summary>
        <Icon name={ok === false ? "cross" : ok === null ? "start" : "tool"} size={13} />
        <strong>{name}</strong>
        <code className="cut">{summaryOf(input)}</code>
        {ok === false ? <span className="call-state">failed</span> : null}
        {ok === null ? <span className="call-state">working</span> : null}
      </summary>
      <CallText title="Input" text={pretty(input)} />
      {result === null ? null : (
        <CallText title={ok === false ? "Error" : "Result"} text={pretty(result)} />
      )}
    </details>
  );
}

function CallText({ title, text }: { title: string; text: string }): ReactNode {
  return (
    <>
      <h3>{title}</h3>
      <pre>{text === "" ? "(empty)" : text}</pre>
    </>
  );
}

/** The fields that say most about a call, in this order. */
const TELLING = ["command", "cmd", "file_path", "path", "pattern", "query", "url", "description"];

/** One line that says what a call does. */
function summaryOf(input: string): string {
  const value = parsed(input);
  if (typeof value !== "object" || value === null) return firstLine(input);
  const fields = value as Readonly<Record<string, unknown>>;
  const found = TELLING.map((name) => fields[name]).find((one) => typeof one === "string");
  return firstLine(found ?? input);
}

function firstLine(text: unknown): string {
  return String(text).trimStart().split("\n", 1)[0]?.slice(0, 200) ?? "";
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

function pretty(text: string): string {
  const value = parsed(text);
  return typeof value === "object" && value !== null ? JSON.stringify(value, null, 2) : text;
}
