/**
 * Configuration files: settings that every pipeline of a project or of a user shares. They have the
 * keys of a pipeline with the same meaning. The pipeline overrides the project, and the project
 * overrides the user.
 *
 * Owns: how the settings of several files become one, and which file a value comes from.
 * Does not: find or read the files (app/pipeline/configuration-file.ts), or check a value against the
 * pipeline that uses it (rules/).
 * Invariants:
 * - configuration/C1 A value keeps its file: a mistake in it is reported there, with its line.
 */
import { resolve } from "node:path";
import { isObject } from "../util/json.ts";
import { type Diagnostic, type Path, Report, type Source } from "./diagnostic.ts";
import type { ConfigurationShape } from "./schema.ts";
import { type ReadShape, readConfigurationShape } from "./shape.ts";
import { parseYaml } from "./yaml.ts";

/** The text of a configuration file. */
export interface ConfigurationText {
  readonly path: string;
  /** Its name in messages. */
  readonly name: string;
  /** The directory that the paths in it are relative to. */
  readonly directory: string;
  readonly text: string;
}

/** The settings of all configuration files. */
export interface Configuration {
  readonly shape: ConfigurationShape;
  /** The files of the settings, by their paths. */
  readonly sources: ReadonlyMap<string, Source>;
  readonly diagnostics: readonly Diagnostic[];
}

/** A pipeline that sets nothing but its own keys. */
export const NO_CONFIGURATION: Configuration = {
  shape: {},
  sources: new Map(),
  diagnostics: [],
};

/** Reads configuration files; a later file overrides those before it. */
export function readConfiguration(files: readonly ConfigurationText[]): Configuration {
  let all = NO_CONFIGURATION;
  for (const { name, directory, text } of files) {
    const { source, value, diagnostics } = parseYaml(name, text);
    const report = new Report(() => source, diagnostics);
    const read = diagnostics.length === 0 ? readConfigurationShape(value, report) : undefined;
    const own = withFullPaths(read?.shape ?? {}, directory);
    all = {
      shape: merged(all.shape, own),
      sources: new Map([...all.sources, ...settingsOf(own).map((key) => [key, source] as const)]),
      diagnostics: [...all.diagnostics, ...report.sorted()],
    };
  }
  return all;
}

/** A pipeline with the settings that it does not have itself. */
export function configured(read: ReadShape, { shape }: Configuration): ReadShape {
  return { ...read, shape: merged(shape, read.shape) };
}

/** The file of the value at a path: that of the pipeline, or the one that it comes from. */
export function sourceIn(
  own: Source,
  { shape }: ReadShape,
  { sources }: Configuration,
): (path: Path) => Source {
  if (sources.size === 0) return () => own;
  const written = new Set(settingsOf(shape));
  return (path) => {
    for (let length = Math.min(path.length, SETTING_KEYS_MAX); length > 0; length--) {
      const key = keyOf(path.slice(0, length));
      if (written.has(key)) return own;
      const source = sources.get(key);
      if (source !== undefined) return source;
    }
    return own;
  };
}

/** The settings that a pipeline takes from each file: `agents.coder`, `defaults.retry`. */
export function takenSettings(
  { shape }: ReadShape,
  { sources }: Configuration,
): readonly { readonly file: string; readonly keys: readonly string[] }[] {
  const written = new Set(settingsOf(shape));
  const byFile = Map.groupBy(
    [...sources].filter(([key]) => !written.has(key) && !OF_COMMANDS.has(key)),
    ([, { file }]) => file,
  );
  return [...byFile].map(([file, entries]) => ({
    file,
    keys: entries.map(([key]) => (JSON.parse(key) as string[]).join(".")),
  }));
}

/** Settings that are merged by name; every other one is replaced as a whole. */
const MERGED: readonly Path[] = [
  ["env"],
  ["agents"],
  ["budget"],
  ["prices"],
  ["cache"],
  ["defaults"],
  ["defaults", "env"],
];
/** The settings of commands and of the service: no pipeline takes them. */
const OF_COMMANDS: ReadonlySet<string> = new Set([keyOf(["service"]), keyOf(["store"])]);
/** The keys of the longest path of a setting: `defaults`, `env` and a name. */
const SETTING_KEYS_MAX = 3;

function isMerged(path: Path): boolean {
  return MERGED.some((one) => keyOf(one) === keyOf(path));
}

function keyOf(path: Path): string {
  return JSON.stringify(path);
}

/** `under`, overridden by `over`. Lists are joined. */
function merged<Over extends ConfigurationShape>(under: ConfigurationShape, over: Over): Over {
  const all = mergedAt([], under, over) as Over;
  const secrets = new Set([...(under.secrets ?? []), ...(over.secrets ?? [])]);
  const requires = new Set([...(under.requires ?? []), ...(over.requires ?? [])]);
  const files = new Set([under.env_file ?? [], over.env_file ?? []].flat());
  const notify = [under.notify ?? [], over.notify ?? []].flat();
  return {
    ...all,
    ...(secrets.size === 0 ? {} : { secrets: [...secrets] }),
    ...(requires.size === 0 ? {} : { requires: [...requires] }),
    ...(files.size === 0 ? {} : { env_file: [...files] }),
    ...(notify.length === 0 ? {} : { notify }),
  };
}

function mergedAt(path: Path, under: object, over: object): object {
  const all = new Map<string, unknown>(Object.entries(under));
  for (const [key, value] of Object.entries(over)) {
    // Two spellings of one setting.
    if (key === "system" || key === "system_file") {
      all.delete("system");
      all.delete("system_file");
    }
    const at = [...path, key];
    const below = all.get(key);
    const joins = isMerged(at) && isObject(below) && isObject(value);
    if (value !== undefined) all.set(key, joins ? mergedAt(at, below, value) : value);
  }
  return Object.fromEntries(all);
}

/** The paths of the settings in a file. */
function settingsOf(shape: object, path: Path = []): string[] {
  return Object.entries(shape).flatMap(([key, value]) => {
    const at = [...path, key];
    return isMerged(at) && isObject(value) ? settingsOf(value, at) : [keyOf(at)];
  });
}

/** The settings of agents that may name a file. */
const FILE_KEYS: ReadonlySet<string> = new Set(["mcp", "system_file", "output_schema"]);

/** Files that settings name are relative to the configuration file, not to the pipeline's. */
function withFullPaths(shape: ConfigurationShape, directory: string): ConfigurationShape {
  const full = <Settings extends object>(settings: Settings): Settings => {
    const named = Object.entries(settings).filter(
      ([key, value]) => FILE_KEYS.has(key) && typeof value === "string",
    );
    const paths = named.map(([key, name]) => [key, resolve(directory, name)] as const);
    return { ...settings, ...Object.fromEntries(paths) };
  };
  const { agents, defaults, env_file } = shape;
  return {
    ...shape,
    ...(env_file === undefined
      ? {}
      : { env_file: [env_file].flat().map((name) => resolve(directory, name)) }),
    ...(defaults === undefined ? {} : { defaults: full(defaults) }),
    ...(agents === undefined
      ? {}
      : {
          agents: Object.fromEntries(
            Object.entries(agents).map(([name, agent]) => [
              name,
              typeof agent === "string" ? agent : full(agent),
            ]),
          ),
        }),
  };
}
