/** Starts a pipeline: choose one of a project, fill in its input. */
import { type ReactNode, useState } from "react";
import { Link, useLocation } from "wouter";
import type { Doc } from "../api.ts";
import { useDocument, useServer } from "../api.ts";
import { pathInAddress, startHref } from "../links.ts";
import { CommandLine, Empty, Failure, Loading } from "../parts/basics.tsx";
import { Icon } from "../parts/icon.tsx";
import { type ListedPipeline, StartForm } from "./start-form.tsx";
import "../styles/start.css";

interface StartPageProps {
  readonly project?: string | undefined;
  readonly pipeline?: string | undefined;
}

export function StartPage({ project: named, pipeline: path }: StartPageProps): ReactNode {
  const pipeline = path === undefined || path === "" ? undefined : pathInAddress(path);
  const server = useServer();
  const [, go] = useLocation();
  const readable = (server?.projects ?? []).filter(({ problem }) => problem === null);
  const project = named ?? (readable.find(({ current }) => current) ?? readable[0])?.project;
  const listed = useDocument<Doc<"pipelines">>(
    project && `/api/projects/${encodeURIComponent(project)}/pipelines`,
  );
  const chosen = listed.data?.pipelines.find(({ name }) => name === pipeline);
  return (
    <>
      <header className="page-head">
        <h1>Start a run</h1>
        {readable.length > 1 && project !== undefined ? (
          <select
            aria-label="Project"
            value={project}
            onChange={(event) => go(startHref(event.target.value))}
          >
            {readable.map((one) => (
              <option key={one.project} value={one.project}>
                {one.name}
              </option>
            ))}
          </select>
        ) : null}
        <span className="faint small mono cut">
          {readable.find((one) => one.project === project)?.directory}
        </span>
      </header>
      {listed.error === undefined ? null : <Failure error={listed.error} />}
      {listed.isLoading ? <Loading lines={6} /> : null}
      {server !== undefined && project === undefined ? <NoPipelines /> : null}
      {listed.data?.pipelines.length === 0 ? <NoPipelines /> : null}
      {project !== undefined && listed.data !== undefined && listed.data.pipelines.length > 0 ? (
        <div className="start" data-chosen={pipeline !== undefined}>
          <PipelineList project={project} pipelines={listed.data.pipelines} chosen={pipeline} />
          {chosen === undefined ? (
            <NotChosen pipeline={pipeline} />
          ) : (
            <StartForm key={chosen.file} project={project} pipeline={chosen} />
          )}
        </div>
      ) : null}
    </>
  );
}

interface ListProps {
  readonly project: string;
  readonly pipelines: readonly ListedPipeline[];
  readonly chosen: string | undefined;
}

/** A search field helps from this many pipelines on. */
const SEARCHED_MIN = 6;

function PipelineList({ project, pipelines, chosen }: ListProps): ReactNode {
  const [search, setSearch] = useState("");
  const words = search.toLowerCase();
  const shown = pipelines.filter(({ name, description }) =>
    `${name} ${description ?? ""}`.toLowerCase().includes(words),
  );
  return (
    <nav className="pipelines" aria-label="Pipelines">
      {pipelines.length < SEARCHED_MIN ? null : (
        <input
          type="search"
          aria-label="Search pipelines"
          placeholder="Search pipelines"
          value={search}
          onChange={(event) => setSearch(event.target.value)}
        />
      )}
      <ul>
        {shown.map((pipeline) => (
          <li key={pipeline.file}>
            <Link
              href={startHref(project, pipeline.name)}
              aria-current={pipeline.name === chosen ? "true" : undefined}
            >
              <PipelineName name={pipeline.name} />
              {pipeline.problem === null ? null : (
                <span className="pipeline-problem">
                  <Icon name="warning" size={13} /> has mistakes
                </span>
              )}
              {pipeline.description === null ? null : (
                <span className="faint small pipeline-about">{pipeline.description}</span>
              )}
            </Link>
          </li>
        ))}
      </ul>
      {shown.length === 0 ? <p className="faint">No pipeline matches.</p> : null}
    </nav>
  );
}

/** The folder stands back behind the name of the file. */
function PipelineName({ name }: { name: string }): ReactNode {
  const cut = name.lastIndexOf("/") + 1;
  return (
    <span className="pipeline-name cut">
      <span className="faint">{name.slice(0, cut)}</span>
      {name.slice(cut)}
    </span>
  );
}

function NotChosen({ pipeline }: { pipeline: string | undefined }): ReactNode {
  if (pipeline !== undefined) return <Empty title={`There is no pipeline ${pipeline} here`} />;
  return (
    <Empty title="Choose a pipeline">
      <p>Its input becomes a form. The run belongs to a runner in the background.</p>
    </Empty>
  );
}

function NoPipelines(): ReactNode {
  return (
    <Empty title="No pipelines here">
      <p>
        Pipelines in the folder <code>pipelines</code> appear here, and those that ran before. This
        command writes one:
      </p>
      <CommandLine command="perdure init" />
    </Empty>
  );
}
