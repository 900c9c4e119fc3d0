/**
 * The frame around all pages: navigation, the state of the connection, keys and messages; light or dark,
 * as the person chose here or as their system prefers.
 *
 * Owns: the addresses of the pages, and the colours of states, which come from the same table as those of
 * `perdure graph` and the report.
 * Does not: show a run. Each page is loaded when it is first opened.
 */
import { lazy, type ReactNode, Suspense, useEffect, useState } from "react";
import { Link, Route, Switch, useLocation } from "wouter";
import { DARK, LIGHT } from "../view/graph/markup.ts";
import { type Doc, type Loaded, ServerContext, useDocument } from "./api.ts";
import { useKeys } from "./browser.ts";
import { useConnectionLost, useLive } from "./live.ts";
import { Button, Empty, Failure, Loading } from "./parts/basics.tsx";
import { Dialog, Toasts } from "./parts/dialog.tsx";
import { Icon, type IconName } from "./parts/icon.tsx";

const RunsPage = lazy(async () => ({
  default: (await import("./runs/runs-page.tsx")).RunsPage,
}));
const InboxPage = lazy(async () => ({
  default: (await import("./inbox/inbox-page.tsx")).InboxPage,
}));
const StartPage = lazy(async () => ({
  default: (await import("./start/start-page.tsx")).StartPage,
}));
const CostPage = lazy(async () => ({
  default: (await import("./cost/cost-page.tsx")).CostPage,
}));
const FleetPage = lazy(async () => ({
  default: (await import("./fleet/fleet-page.tsx")).FleetPage,
}));
const ComparePage = lazy(async () => ({
  default: (await import("./compare/compare-page.tsx")).ComparePage,
}));
const RunPage = lazy(async () => ({
  default: (await import("./run/run-page.tsx")).RunPage,
}));
const StepPage = lazy(async () => ({
  default: (await import("./step/step-page.tsx")).StepPage,
}));
const TimePage = lazy(async () => ({
  default: (await import("./time/time-page.tsx")).TimePage,
}));
const ReportPage = lazy(async () => ({
  default: (await import("./report/report-page.tsx")).ReportPage,
}));

export function App(): ReactNode {
  const projects = useDocument<Doc<"projects">>("/api/projects");
  const inbox = useInbox();
  const [isHelpOpen, setHelpOpen] = useState(false);
  const [, go] = useLocation();
  useKeys({
    "g r": () => go("/"),
    "g i": () => go("/inbox"),
    "g s": () => go("/start"),
    "g c": () => go("/cost"),
    ...(projects.data?.fleet === true ? { "g f": () => go("/fleet") } : {}),
    "?": () => setHelpOpen(true),
  });
  if (projects.error?.status === 401) return <SignedOut />;
  return (
    <ServerContext value={projects.data}>
      <div className="shell">
        <a className="skip-link" href="#content">
          Skip to the content
        </a>
        <Navigation
          waiting={(inbox.data?.questions.length ?? 0) + (inbox.data?.uncertain.length ?? 0)}
          hidden={hiddenPlaces(projects.data)}
          readOnly={projects.data?.read_only === true}
        />
        <main id="content" tabIndex={-1}>
          {projects.error === undefined ? null : <Failure error={projects.error} />}
          <Suspense fallback={<Loading lines={6} />}>
            <Pages inbox={inbox} />
          </Suspense>
        </main>
        <Toasts />
        {isHelpOpen ? <KeyHelp onClose={() => setHelpOpen(false)} /> : null}
      </div>
    </ServerContext>
  );
}

function Pages({ inbox }: { inbox: Loaded<Doc<"inbox">> }): ReactNode {
  return (
    <Switch>
      <Route path="/">
        <RunsPage />
      </Route>
      <Route path="/inbox">
        <InboxPage inbox={inbox} />
      </Route>
      <Route path="/start/:project?/*?">
        {({ project, "*": pipeline }) => <StartPage project={project} pipeline={pipeline} />}
      </Route>
      <Route path="/cost">
        <CostPage />
      </Route>
      <Route path="/fleet">
        <FleetPage />
      </Route>
      <Route path="/compare">
        <ComparePage />
      </Route>
      <Route path="/runs/:run/steps/*">
        {({ run, "*": step }) => <StepPage key={run} run={run} step={step} />}
      </Route>
      <Route path="/runs/:run/time/:sequence?">
        {({ run, sequence }) => <TimePage key={run} run={run} sequence={sequence} />}
      </Route>
      <Route path="/runs/:run/report">{({ run }) => <ReportPage key={run} run={run} />}</Route>
      <Route path="/runs/:run">{({ run }) => <RunPage key={run} run={run} />}</Route>
      <Route>
        <h1>There is no such page</h1>
        <p>
          <Link href="/">All runs</Link>
        </p>
      </Route>
    </Switch>
  );
}

/** The open questions, kept up to date for the number beside the inbox. */
function useInbox(): Loaded<Doc<"inbox">> {
  const inbox = useDocument<Doc<"inbox">>("/api/inbox");
  useLive<Doc<"inbox">>(
    inbox.data === undefined ? undefined : { path: "/api/inbox/changes", event: "inbox" },
    (news) => inbox.set(() => news),
  );
  const count = (inbox.data?.questions.length ?? 0) + (inbox.data?.uncertain.length ?? 0);
  useEffect(() => {
    document.title = count === 0 ? "Perdure" : `(${count}) Perdure`;
  }, [count]);
  return inbox;
}

const PLACES: readonly { href: string; label: string; icon: IconName }[] = [
  { href: "/", label: "Runs", icon: "runs" },
  { href: "/inbox", label: "Inbox", icon: "inbox" },
  { href: "/start", label: "Start", icon: "start" },
  { href: "/cost", label: "Cost", icon: "cost" },
  { href: "/fleet", label: "Fleet", icon: "fleet" },
];

/** The pages that make no sense here: nothing may be changed, or there is no fleet. */
function hiddenPlaces(server: Doc<"projects"> | undefined): readonly string[] {
  const start = server?.read_only === true ? ["/start"] : [];
  return server?.fleet === true ? start : [...start, "/fleet"];
}

interface NavigationProps {
  readonly waiting: number;
  readonly hidden: readonly string[];
  readonly readOnly: boolean;
}

function Navigation({ waiting, hidden, readOnly }: NavigationProps): ReactNode {
  const [path] = useLocation();
  const isHere = (href: string): boolean =>
    href === "/" ? path === "/" || path.startsWith("/runs") : path.startsWith(href);
  return (
    <nav className="navigation" aria-label="Pages">
      <Link className="brand" href="/">
        <img src="/icon.svg" alt="" width="22" height="22" />
        <span>Perdure</span>
      </Link>
      <ul>
        {PLACES.filter(({ href }) => !hidden.includes(href)).map(({ href, label, icon }) => (
          <li key={href}>
            <Link href={href} aria-current={isHere(href) ? "page" : undefined}>
              <Icon name={icon} />
              <span>{label}</span>
              {href === "/inbox" && waiting > 0 ? (
                <span className="badge">
                  {waiting}
                  <span className="hidden-text"> open</span>
                </span>
              ) : null}
            </Link>
          </li>
        ))}
      </ul>
      <div className="navigation-end">
        <Connection />
        {readOnly ? <span className="note">read-only</span> : null}
        <ThemeChoice />
      </div>
    </nav>
  );
}

function Connection(): ReactNode {
  const isLost = useConnectionLost();
  return (
    <span className="connection" data-lost={isLost} role="status">
      {isLost ? "connecting…" : "live"}
    </span>
  );
}

const THEMES: readonly { theme: Theme; icon: IconName; label: string }[] = [
  { theme: "system", icon: "screen", label: "As the system" },
  { theme: "light", icon: "sun", label: "Light" },
  { theme: "dark", icon: "moon", label: "Dark" },
];

function ThemeChoice(): ReactNode {
  const [theme, setTheme] = useState(chosenTheme);
  return (
    <fieldset className="theme-choice">
      <legend className="hidden-text">Colours</legend>
      {THEMES.map((one) => (
        <Button
          key={one.theme}
          look="quiet"
          icon={one.icon}
          aria-label={one.label}
          title={one.label}
          aria-pressed={theme === one.theme}
          onClick={() => {
            chooseTheme(one.theme);
            setTheme(one.theme);
          }}
        />
      ))}
    </fieldset>
  );
}

const KEYS: readonly (readonly [keys: string, meaning: string])[] = [
  ["g r", "all runs"],
  ["g i", "the inbox"],
  ["g s", "start a pipeline"],
  ["g c", "what runs cost"],
  ["g f", "the fleet, where there is one"],
  ["/", "search"],
  ["j k", "next and previous row"],
  ["Enter", "open the row"],
  ["x", "choose a run to compare"],
  ["← →", "in time travel: one event earlier or later; ten with shift"],
  ["Home End", "in time travel: the first and the last event"],
  ["?", "these keys"],
];

function KeyHelp({ onClose }: { onClose: () => void }): ReactNode {
  return (
    <Dialog title="Keys" onClose={onClose}>
      <dl className="key-list">
        {KEYS.map(([keys, meaning]) => (
          <div key={keys}>
            <dt>
              {keys.split(" ").map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dt>
            <dd>{meaning}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}

function SignedOut(): ReactNode {
  return (
    <main className="signed-out">
      <Empty title="This browser is not signed in">
        <p>
          Open the address that <code>perdure ui</code> printed: it contains the token.
        </p>
      </Empty>
    </main>
  );
}

type Theme = "light" | "dark" | "system";

const STORED = "perdure.theme";
const prefersDark = matchMedia("(prefers-color-scheme: dark)");
prefersDark.addEventListener("change", () => applyTheme());

/** The theme that the person chose. */
function chosenTheme(): Theme {
  const stored = localStorage.getItem(STORED);
  return stored === "light" || stored === "dark" ? stored : "system";
}

/** Remembers the theme in this browser. */
function chooseTheme(theme: Theme): void {
  localStorage.setItem(STORED, theme);
  applyTheme();
}

/** Sets the colours of the document. */
export function applyTheme(): void {
  const chosen = chosenTheme();
  paint(chosen === "dark" || (chosen === "system" && prefersDark.matches));
}

// Paper is white.
window.addEventListener("beforeprint", () => paint(false));
window.addEventListener("afterprint", () => applyTheme());

function paint(isDark: boolean): void {
  const { documentElement } = document;
  documentElement.dataset.theme = isDark ? "dark" : "light";
  for (const [tint, { fill, line }] of Object.entries(isDark ? DARK : LIGHT)) {
    documentElement.style.setProperty(`--${tint}-fill`, fill);
    documentElement.style.setProperty(`--${tint}-line`, line);
  }
}
