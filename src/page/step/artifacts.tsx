/** The files that a step passed on: a preview of text, JSON and pictures, and a download of all. */
import { type ReactNode, useEffect, useState } from "react";
import { type Doc, runPath } from "../api.ts";
import { Empty } from "../parts/basics.tsx";
import { bytesText } from "../parts/figures.tsx";
import { Icon } from "../parts/icon.tsx";
import { Json } from "../parts/json.tsx";

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
