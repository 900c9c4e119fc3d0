/** What a run did to the files of its project, and how to take it over. */
import type { ReactNode } from "react";
import { type CommandDoc, type Overview, runPath, useDocument } from "../api.ts";
import { Card, CommandLine, Copy, Empty, Failure, Loading } from "../parts/basics.tsx";
import { Diff } from "../parts/diff.tsx";
import { Icon } from "../parts/icon.tsx";

interface FilesProps {
  readonly overview: Overview;
}

export function Files({ overview }: FilesProps): ReactNode {
  const { run_id: run, result } = overview;
  const diff = useDocument<CommandDoc<"diff">>(runPath(run, "diff"), {
    ...{ from: "base", to: "now", patch: 1 },
  });
  return (
    <div className="run-files">
      {result === null ? null : <Result overview={overview} result={result} />}
      {diff.error === undefined ? null : <Failure error={diff.error} />}
      {diff.isLoading ? <Loading lines={8} /> : null}
      {diff.data === undefined ? null : <Changed diff={diff.data} />}
    </div>
  );
}

function Changed({ diff }: { diff: CommandDoc<"diff"> }): ReactNode {
  const { files, patch, patch_cut: isCut } = diff;
  if (files.length === 0) return <Empty title="The run has changed no files" />;
  const added = files.reduce((sum, file) => sum + file.added, 0);
  const removed = files.reduce((sum, file) => sum + file.removed, 0);
  return (
    <Card
      title={files.length === 1 ? "1 file changed" : `${files.length} files changed`}
      aside={
        <span className="file-counts figure small">
          <span className="added-count">+{added}</span>
          <span className="removed-count">−{removed}</span>
        </span>
      }
    >
      <div className="card-body">
        <Diff files={files} patch={patch} isCut={isCut} label="Changes of the run" />
      </div>
    </Card>
  );
}

interface ResultProps extends FilesProps {
  readonly result: NonNullable<Overview["result"]>;
}

function Result({ overview, result }: ResultProps): ReactNode {
  const { branch, directory, base, base_moved: moved } = result;
  const id = overview.short_id;
  return (
    <Card title="Result">
      <div className="card-body run-result">
        <dl className="fact-list">
          {branch === null ? null : (
            <Named name="Branch" text={branch} icon={<Icon name="branch" size={14} />} />
          )}
          {directory === null ? null : <Named name="Directory" text={directory} />}
          {base === null ? null : <Named name="Base" text={base.slice(0, 12)} />}
        </dl>
        {moved === null || moved === 0 ? null : (
          <p className="faint">
            The project has {moved} {moved === 1 ? "commit" : "commits"} since the run started.
          </p>
        )}
        <ul className="run-card-next">
          <Take text="Merge its branch" command={`perdure merge ${id}`} />
          <Take text="Copy its changes" command={`perdure apply ${id}`} />
          <Take text="Open a pull request" command={`perdure pr ${id}`} />
        </ul>
      </div>
    </Card>
  );
}

function Named({ name, text, icon }: { name: string; text: string; icon?: ReactNode }): ReactNode {
  return (
    <div>
      <dt>{name}</dt>
      <dd className="mono run-named">
        {icon}
        <span className="cut" title={text}>
          {text}
        </span>
        <Copy text={text} label={`Copy ${text}`} />
      </dd>
    </div>
  );
}

function Take({ text, command }: { text: string; command: string }): ReactNode {
  return (
    <li>
      <span className="run-card-text">{text}</span>
      <CommandLine command={command} />
    </li>
  );
}
