/** Buttons, cards, tabs, empty and failed states: what every page is made of. */
import {
  type ButtonHTMLAttributes,
  Fragment,
  type ReactNode,
  useId,
  useRef,
  useState,
} from "react";
import { Link } from "wouter";
import type { ApiError } from "../api.ts";
import { runHref } from "../links.ts";
import { Icon, type IconName } from "./icon.tsx";

interface ButtonProps extends ButtonHTMLAttributes<HTMLButtonElement> {
  readonly icon?: IconName;
  readonly look?: "plain" | "primary" | "danger" | "quiet";
}

export function Button({ icon, look = "plain", children, ...rest }: ButtonProps): ReactNode {
  return (
    <button type="button" className="button" data-look={look} {...rest}>
      {icon === undefined ? null : <Icon name={icon} />}
      {children}
    </button>
  );
}

/** Copies a text, and says so. */
export function Copy({ text, label = "Copy" }: { text: string; label?: string }): ReactNode {
  const [isCopied, setCopied] = useState(false);
  const copy = (): void => {
    navigator.clipboard
      .writeText(text)
      .then(() => setCopied(true))
      .catch(() => setCopied(false));
    window.setTimeout(() => setCopied(false), 1_500);
  };
  return (
    <button
      type="button"
      className="button icon-button"
      data-look="quiet"
      onClick={copy}
      aria-label={isCopied ? "Copied" : label}
      title={isCopied ? "Copied" : label}
    >
      <Icon name={isCopied ? "check" : "copy"} size={14} />
    </button>
  );
}

/** A command to type, with a button that copies it. */
export function CommandLine({ command }: { command: string }): ReactNode {
  return (
    <span className="command">
      <code>{command}</code>
      <Copy text={command} label={`Copy the command ${command}`} />
    </span>
  );
}

interface CardProps {
  readonly title?: ReactNode;
  readonly aside?: ReactNode;
  readonly children: ReactNode;
  readonly tint?: string;
  readonly className?: string;
}

export function Card({ title, aside, children, tint, className = "" }: CardProps): ReactNode {
  return (
    <section className={`card ${className}`} data-tint={tint}>
      {title === undefined ? null : (
        <header className="card-head">
          <h2>{title}</h2>
          {aside}
        </header>
      )}
      {children}
    </section>
  );
}

interface TabsProps<T extends string> {
  readonly tabs: readonly { readonly id: T; readonly label: ReactNode }[];
  readonly chosen: T;
  readonly onChoose: (id: T) => void;
  readonly label: string;
  readonly children: ReactNode;
}

/** Tabs with their panel; arrow keys move between them. */
export function Tabs<T extends string>(props: TabsProps<T>): ReactNode {
  const { tabs, chosen, onChoose, label, children } = props;
  const id = useId();
  const list = useRef<HTMLDivElement>(null);
  const move = (step: number): void => {
    const at = tabs.findIndex((tab) => tab.id === chosen);
    const next = tabs[(at + step + tabs.length) % tabs.length];
    if (next === undefined) return;
    onChoose(next.id);
    list.current?.querySelector<HTMLElement>(`#${CSS.escape(`${id}-${next.id}`)}`)?.focus();
  };
  return (
    <>
      <div className="tabs" role="tablist" aria-label={label} ref={list}>
        {tabs.map((tab) => (
          <button
            key={tab.id}
            type="button"
            role="tab"
            id={`${id}-${tab.id}`}
            aria-selected={tab.id === chosen}
            aria-controls={`${id}-panel`}
            tabIndex={tab.id === chosen ? 0 : -1}
            onClick={() => onChoose(tab.id)}
            onKeyDown={(event) => {
              if (event.key === "ArrowRight") move(1);
              if (event.key === "ArrowLeft") move(-1);
            }}
          >
            {tab.label}
          </button>
        ))}
      </div>
      <div className="panel" role="tabpanel" id={`${id}-panel`} aria-labelledby={`${id}-${chosen}`}>
        {children}
      </div>
    </>
  );
}

interface EmptyProps {
  readonly title: string;
  readonly children?: ReactNode;
}

export function Empty({ title, children }: EmptyProps): ReactNode {
  return (
    <div className="empty">
      <h2>{title}</h2>
      {children}
    </div>
  );
}

/** Why something could not be shown or done, and the command that helps. */
export function Failure({ error }: { error: ApiError }): ReactNode {
  return (
    <div className="failure" role="alert">
      <Icon name="warning" />
      <div>
        <p>{error.message}</p>
        {error.next.map(({ text, command }) => (
          <p key={`${text}${command}`}>
            {command === null ? text : <CommandLine command={command} />}
          </p>
        ))}
      </div>
    </div>
  );
}

/** A page that cannot be shown, and why. */
export function Refused({ title, error }: { title: string; error: ApiError }): ReactNode {
  return (
    <>
      <h1>{title}</h1>
      <Failure error={error} />
    </>
  );
}

/** Grey lines in the place of what is being read. */
export function Loading({ lines = 3 }: { lines?: number }): ReactNode {
  return (
    <div className="loading" role="status" aria-label="Loading">
      {Array.from({ length: lines }, (_, index) => (
        <span key={index} />
      ))}
    </div>
  );
}

interface BreadcrumbProps {
  readonly run: string;
  /** The whole id of the run. */
  readonly runId: string;
  /** What is below the run; the last part is the page itself. */
  readonly parts: readonly { readonly name: string; readonly href?: string }[];
  readonly children?: ReactNode;
}

/** The way from the list of runs to a page below a run. */
export function Breadcrumb({ run, runId, parts, children }: BreadcrumbProps): ReactNode {
  return (
    <nav className="breadcrumb" aria-label="Where this page is">
      <Link href="/">Runs</Link>
      <span aria-hidden="true">/</span>
      <Link href={runHref(run)} className="mono">
        {runId.slice(0, 8)}
      </Link>
      {parts.map(({ name, href }, index) => (
        <Fragment key={index}>
          <span aria-hidden="true">/</span>
          {href === undefined ? (
            <span aria-current="page">{name}</span>
          ) : (
            <Link href={href}>{name}</Link>
          )}
        </Fragment>
      ))}
      {children}
    </nav>
  );
}

/** A part of the details of something, with its heading. */
export function Part({ title, aside, children }: Omit<CardProps, "tint" | "className">): ReactNode {
  return (
    <section className="evidence-part">
      <header>
        <h2>{title}</h2>
        {aside}
      </header>
      {children}
    </section>
  );
}
