import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { checkShellTemplate, quote, renderShell, reparsedValues } from "../../src/util/shell.ts";

const HOSTILE = [
  "'; touch x; '",
  '"; touch x; "',
  "$(touch x)",
  "`touch x`",
  "a\nb\n\n",
  "*",
  "-n",
  "--",
  '"',
  "'",
  "\\",
  "é😀",
  "  two  blanks ",
  "",
  "$HOME",
  "${HOME}",
  "}",
  ")",
  "EOF",
  "a\\nb",
  "#c",
  "~",
  "%s",
  "a'b\"c`d$e\\f\n*",
];

/** What a command must print when each expression has the value x. */
const PLACES: Record<string, readonly [template: string, printed: (x: string) => string]> = {
  word: ["printf %s ${{ x }}", (x) => x],
  "part of a word": ["printf %s a${{ x }}b", (x) => `a${x}b`],
  "twice in a word": ["printf %s ${{ x }}${{ x }}", (x) => x + x],
  assignment: ['v=${{ x }}; printf %s "$v"', (x) => x],
  "double quotes": ['printf %s "a${{ x }}b"', (x) => `a${x}b`],
  "single quotes": ["printf %s 'a${{ x }}b'", (x) => `a${x}b`],
  "after escaped quotes": ["printf %s \\'${{ x }}\\\"", (x) => `'${x}"`],
  substitution: ['printf %s "$(printf %s. ${{ x }})"', (x) => `${x}.`],
  "quotes in a substitution": ['printf %s "$(printf %s. "${{ x }}")"', (x) => `${x}.`],
  "single quotes in a substitution": ["printf %s \"$(printf %s. '<${{ x }}>')\"", (x) => `<${x}>.`],
  backquotes: ['printf %s "`printf %s. ${{ x }}`"', (x) => `${x}.`],
  "escaped quotes in backquotes": ['printf %s "`printf %s. \\"${{ x }}\\"`"', (x) => `${x}.`],
  "nested backquotes": [
    'v=`printf %s. "\\`printf %s. ${{ x }}\\`"`; printf %s "$v"',
    (x) => `${x}..`,
  ],
  default: ["printf %s ${NOPE:-${{ x }}}", (x) => x],
  "quoted default": ['printf %s "${NOPE:-${{ x }}}"', (x) => x],
  "quotes in a quoted default": ['printf %s "${NOPE:-"${{ x }}"}"', (x) => x],
  pattern: ['v=a${{ x }}; printf %s "${v#a${{ x }}}end"', () => "end"],
  "here-document": ["cat <<EOF\n${{ x }}\nEOF", (x) => `${x}\n`],
  "here-document without tabs": ["cat <<-EOF\n\t${{ x }}\n\tEOF", (x) => `${x}\n`],
  "substitution in a here-document": ["cat <<EOF\n$(printf %s. ${{ x }})\nEOF", (x) => `${x}.\n`],
  "behind a here-document": ["cat <<A; printf %s 'q${{ x }}'\nit's\nA\n", (x) => `it's\nq${x}`],
  "behind a quoted here-document": ["cat <<'Q'\n'\nQ\nprintf %s ${{ x }}", (x) => `'\n${x}`],
  "case in a substitution": [
    'printf %s "$(case a in a) printf %s. ${{ x }};; esac)"',
    (x) => `${x}.`,
  ],
  "pattern of a case": ["case ${{ x }} in ${{ x }}) printf yes;; *) printf no;; esac", () => "yes"],
  "behind a comment": ["printf y # it's ${{ x }}\nprintf %s ${{ x }}", (x) => `y${x}`],
  "loop list": ['for i in ${{ x }}; do printf %s "$i"; done', (x) => x],
  subshell: ["(printf %s ${{ x }})", (x) => x],
  "continued line": ["printf %s \\\n  ${{ x }}", (x) => x],
  "behind a shift": ["printf %s $((1<<2))${{ x }}", (x) => `4${x}`],
};

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "perdure-shell-"));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

/** Runs many scripts in one shell; the output of each ends with a mark that no value holds. */
function outputs(shell: readonly string[], scripts: readonly string[]): string[] {
  const MARK = "\x01\x02";
  const all = scripts.map((script) => `(\n${script}\n)\nprintf '${MARK}'\n`).join("");
  const file = join(dir, "script");
  writeFileSync(file, all);
  const [program = "sh", ...options] = shell;
  const result = spawnSync(program, [...options, file], { cwd: dir, encoding: "utf8" });
  expect(result.stderr).toBe("");
  expect(readdirSync(dir)).toEqual(["script"]);
  return result.stdout.split(MARK).slice(0, -1);
}

const SHELLS = [["sh"], ["bash", "--posix"]].filter(
  ([program = ""]) => spawnSync(program, ["-c", ":"]).status === 0,
);

describe("renderShell", () => {
  it.each(Object.entries(PLACES))("hands values on unchanged: %s", (_, [template, printed]) => {
    for (const shell of SHELLS) {
      const scripts = HOSTILE.map((value) => renderShell(template, () => value));
      expect(outputs(shell, scripts)).toEqual(HOSTILE.map(printed));
    }
  });

  it("hands any text on unchanged, in every place", () => {
    const text = fc
      .array(
        fc.oneof(
          fc.constantFrom("'", '"', "`", "$", "\\", "\n", "*", "$(", "}", ")", "EOF", " ", "#"),
          fc.string({ unit: "grapheme", maxLength: 3 }),
        ),
        { maxLength: 12 },
      )
      .map((pieces) => [...pieces.join("")].filter((char) => char > "\x02").join(""));
    fc.assert(
      fc.property(fc.array(text, { minLength: 20, maxLength: 20 }), (values) => {
        const places = Object.values(PLACES);
        const cases = values.flatMap((value) =>
          places.map(([template, printed]) => [renderShell(template, () => value), printed(value)]),
        ) as [string, string][];
        const printed = outputs(
          ["sh"],
          cases.map(([script]) => script),
        );
        expect(printed).toEqual(cases.map(([, expected]) => expected));
      }),
      { numRuns: 5 },
    );
  });

  it("adds exactly one line, whatever the values hold", () => {
    const script = renderShell('a ${{ x }}\nb "${{ y }}"\n', () => "1\n2\n3");
    expect(script.split("\n").slice(1)).toEqual(['a "${__perdure_1}"', 'b "${__perdure_2}"', ""]);
    expect(renderShell("a\nb", () => "never")).toBe("a\nb");
  });

  it("takes values that are too long for an argument", () => {
    const value = "0123456789abcde'".repeat(20_000);
    const script = renderShell("cat <<EOF\n${{ x }}\nEOF", () => value);
    const file = join(dir, "script");
    writeFileSync(file, script);
    expect(execFileSync("sh", [file], { encoding: "utf8" })).toBe(`${value}\n`);
  });

  it("lets only whole numbers into arithmetic", () => {
    expect(outputs(["sh"], [renderShell("printf %s $((1 + ${{ x }}))", () => 41)])).toEqual(["42"]);
    for (const template of ["echo $((${{ x }}))", "((${{ x }}))", "echo ${a[${{ x }}]}"]) {
      expect(() => renderShell(template, () => "a[$(touch x)]")).toThrow(/must be a whole number/);
    }
  });

  it("refuses values that no shell text can hold", () => {
    expect(() => renderShell("echo ${{ x }}", () => "a\0b")).toThrow(/`x` holds a NUL byte/);
    expect(() => renderShell("echo ${{ x }}", () => "\ud800")).toThrow(/not valid Unicode/);
  });
});

describe("checkShellTemplate", () => {
  it.each([
    ["cat <<'EOF'\n${{ x }}\nEOF", 16, /leave the quotes off the delimiter/],
    ["cat <<\\EOF\n$(echo ${{ x }})\nEOF", 22, /leave the quotes off the delimiter/],
    ["cat <<${{ x }}\n", 10, /cannot be the delimiter/],
    ["echo \\${{ x }}", 10, /a backslash cannot be/],
    ['echo "\\${{ x }}"', 11, /a backslash cannot be/],
    ["echo ${${{ x }}}", 11, /cannot be the name/],
    ["echo $'${{ x }}'", 11, /not every shell knows/],
    ["echo $'\\'' ${{ x }}", 15, /shells read differently/],
    ["cat <<EOF\n${v#${{ x }}}\nEOF", 18, /pattern inside a here-document/],
    [`${"$(".repeat(200)}\${{ x }}`, 404, /more than 100 deep/],
    ["echo ${{ x", 5, /no closing/],
    ["echo \0", 5, /NUL byte/],
  ])("refuses %j", (template, offset, message) => {
    const [problem] = checkShellTemplate(template);
    expect(problem?.offset).toBe(offset);
    expect(problem?.message).toMatch(message);
  });

  it("finds nothing wrong where rendering works", () => {
    for (const [template] of Object.values(PLACES))
      expect(checkShellTemplate(template)).toEqual([]);
  });
});

describe("quote", () => {
  it("makes one word of any text", () => {
    expect(quote("it's")).toBe("'it'\\''s'");
  });
});

describe("reparsedValues", () => {
  it.each([
    ['sh -c "echo ${{ input.x }}"', "sh -c"],
    ["bash -euo pipefail -c 'echo ${{ input.x }}'", "bash -c"],
    ["sudo -u me /bin/bash -lc ${{ input.x }}", "bash -lc"],
    ["docker exec one sh -c 'echo \"${{ input.x }}\"'", "sh -c"],
    ['if true; then eval "echo ${{ input.x }}"; fi', "eval"],
    ['ssh -p 22 host "rm ${{ input.x }}"', "ssh"],
    ["ssh host rm -- ${{ input.x }}", "ssh"],
    ["ssh host <<EOF\necho ${{ input.x }}\nEOF", "ssh"],
    ["bash -s <<EOF\necho ${{ input.x }}\nEOF", "bash"],
    ["python3 -c 'print(${{ input.x }})'", "python3 -c"],
    ['echo $(sh -c "echo ${{ input.x }}")', "sh -c"],
    ['trap "rm ${{ input.x }}" EXIT', "trap"],
  ])("names who parses the value again: %s", (text, by) => {
    expect(reparsedValues(text).map((found) => found.by)).toEqual([by]);
  });

  it.each([
    "echo ${{ input.x }}",
    "sh -c 'echo \"$1\"' sh ${{ input.x }}",
    "sh script.sh ${{ input.x }}",
    "sh -c true; echo ${{ input.x }}",
    "echo sh -c ${{ input.x }}",
    "ssh ${{ input.host }} uptime",
    "ssh host cat > ${{ input.x }}x < in <<EOF\nx\nEOF",
    "cat <<EOF\n${{ input.x }}\nEOF",
    "bash script.sh <<EOF\n${{ input.x }}\nEOF",
    "ssh host cat <<EOF\n${{ input.x }}\nEOF",
    "python3 script.py -c ${{ input.x }}",
    "grep -e ${{ input.x }} file",
  ])("finds nothing in: %s", (text) => {
    expect(reparsedValues(text)).toEqual([]);
  });
});
