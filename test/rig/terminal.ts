/**
 * A real terminal for tests: a pseudo-terminal made by `script` (util-linux), read by the terminal
 * emulator that also draws in editors, so that the screen can be looked at at any moment.
 *
 * Owns: the shell in it, which ends with the test.
 * Does not: know what runs in it.
 */
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import headless from "@xterm/headless";
import { cleanEnvironment, eventually, PROGRAM, type Project } from "./project.ts";

export interface TerminalSize {
  readonly columns: number;
  readonly rows: number;
}

/** A part of a line in one style. */
export interface StyledPart {
  readonly text: string;
  readonly column: number;
  /** The number in the palette; -1 for the default. */
  readonly color: number;
  readonly isBold: boolean;
  readonly isDim: boolean;
}

const PROMPT = "ready> ";
const SCROLLBACK = 10_000;
const KEYS: Readonly<Record<string, string>> = {
  Enter: "\r",
  Tab: "\t",
  Escape: "\u001b",
  Up: "\u001b[A",
  Down: "\u001b[B",
  "C-c": "\u0003",
  "C-d": "\u0004",
};
/** The marks of a synchronised update. */
const FRAME_BEGIN = "\u001b[?2026h";
const FRAME_END = "\u001b[?2026l";
const CURSOR_SWITCH = /\[\?25([hl])/g;

export class Terminal {
  readonly #emulator: headless.Terminal;
  readonly #shell: ChildProcess;
  #device: string | undefined;
  #cursor = "h";
  #bytes = "";
  /** Chunks that the emulator has not drawn yet. */
  #unread = 0;

  constructor(
    project: Project,
    { columns, rows }: TerminalSize,
    env: Readonly<Record<string, string>> = {},
  ) {
    this.#emulator = new headless.Terminal({
      cols: columns,
      rows,
      scrollback: SCROLLBACK,
      allowProposedApi: true,
    });
    // As people use it: an interactive shell restores the mode of the terminal after a kill.
    const shell = `stty rows ${rows} cols ${columns}; exec bash --norc --noprofile`;
    this.#shell = spawn("script", ["-qfec", shell, "/dev/null"], {
      cwd: project.dir,
      env: {
        ...cleanEnvironment(),
        ...project.own,
        TERM: "xterm-256color",
        ...env,
      },
      stdio: ["pipe", "pipe", "inherit"],
    });
    this.#shell.stdout?.on("data", (chunk: Buffer) => this.#take(chunk));
    this.#shell.stdin?.on("error", () => this.close());
    this.type(`PS1='${PROMPT}'; clear`);
  }

  /** Types a perdure command and Enter. */
  perdure(args: string): void {
    this.type(`"${process.execPath}" "${PROGRAM}" ${args}; echo "status $?"`);
  }

  /** Types a line and Enter. */
  type(line: string): void {
    this.#shell.stdin?.write(line);
    this.key("Enter");
  }

  /** Presses a key, such as C-c. */
  key(name: string): void {
    this.#shell.stdin?.write(KEYS[name] ?? name);
  }

  /** The lines of the screen now, without the empty ones at its end. */
  screen(): readonly string[] {
    const { active } = this.#emulator.buffer;
    return this.#lines(active.baseY, active.baseY + this.#emulator.rows).text.split("\n");
  }

  /** The screen when no frame is being drawn. */
  async wholeScreen(): Promise<readonly string[]> {
    const count = (mark: string): number => this.#bytes.split(mark).length;
    const isWhole = (): boolean => this.#unread === 0 && count(FRAME_BEGIN) === count(FRAME_END);
    await eventually("the frame is whole", isWhole);
    return this.screen();
  }

  /** The screen as one text in which wrapped lines are whole again, with what scrolled away. */
  text(): string {
    return this.#lines(0, this.#emulator.buffer.active.length).unwrapped;
  }

  /** The screen in colour: for each line its parts, each in one style. */
  styledScreen(): readonly (readonly StyledPart[])[] {
    const { active } = this.#emulator.buffer;
    return this.screen().map((_, at) => this.#parts(active.baseY + at));
  }

  #parts(at: number): readonly StyledPart[] {
    const line = this.#emulator.buffer.active.getLine(at);
    const parts: StyledPart[] = [];
    for (let column = 0; column < this.#emulator.cols; column++) {
      const cell = line?.getCell(column);
      if (cell === undefined || cell.getWidth() === 0) continue;
      const style = {
        color: cell.isFgPalette() ? cell.getFgColor() : -1,
        isBold: cell.isBold() !== 0,
        isDim: cell.isDim() !== 0,
      };
      const text = cell.getChars() || " ";
      const last = parts.at(-1);
      const isSame =
        last?.color === style.color && last.isBold === style.isBold && last.isDim === style.isDim;
      if (isSame && last !== undefined)
        parts[parts.length - 1] = { ...last, text: last.text + text };
      else parts.push({ text, column, ...style });
    }
    return parts;
  }

  /** Every byte that reached the terminal, one character each. */
  bytes(): string {
    return this.#bytes;
  }

  isCursorVisible(): boolean {
    return this.#cursor === "h";
  }

  /** Waits until the text is there. */
  async shows(text: string | RegExp): Promise<void> {
    const found = (): boolean =>
      typeof text === "string" ? this.text().includes(text) : text.test(this.text());
    await eventually(`the terminal shows ${text}`, found).catch((error: unknown) => {
      throw new Error(`${String(error)}; it shows:\n${this.text()}`);
    });
  }

  /** Waits for the shell's prompt at the end. */
  async isBack(): Promise<void> {
    await this.shows(new RegExp(`${PROMPT.trim()}\\s*$`));
  }

  /** Empties the screen and what scrolled away. */
  clear(): void {
    this.#emulator.reset();
    this.key("Enter");
  }

  /** Makes the window larger or smaller; the system informs the program in it. */
  async resize({ columns, rows }: TerminalSize): Promise<void> {
    this.#emulator.resize(columns, rows);
    const device = await this.#findDevice();
    execFileSync("stty", ["-F", device, "rows", `${rows}`, "cols", `${columns}`]);
  }

  /** Closes the window: whatever runs in it loses its terminal. */
  close(): void {
    this.#shell.kill("SIGKILL");
  }

  #take(chunk: Buffer): void {
    const bytes = chunk.toString("latin1");
    this.#bytes += bytes;
    for (const match of bytes.matchAll(CURSOR_SWITCH)) {
      this.#cursor = match[1] ?? "h";
    }
    this.#unread++;
    this.#emulator.write(chunk, () => {
      this.#unread--;
    });
  }

  #lines(from: number, to: number): { text: string; unwrapped: string } {
    const { active } = this.#emulator.buffer;
    let text = "";
    let unwrapped = "";
    for (let at = from; at < to; at++) {
      const line = active.getLine(at);
      const next = active.getLine(at + 1);
      text += `${line?.translateToString(true) ?? ""}\n`;
      unwrapped += line?.translateToString(next?.isWrapped !== true) ?? "";
      if (next?.isWrapped !== true) unwrapped += "\n";
    }
    return { text: text.trimEnd(), unwrapped: unwrapped.trimEnd() };
  }

  /** The other side of the pseudo-terminal: the controlling terminal of the shell. */
  async #findDevice(): Promise<string> {
    const find = (): string => {
      const { pid } = this.#shell;
      const pids = execFileSync("ps", ["-o", "tty=", "--ppid", `${pid}`], { encoding: "utf8" });
      return pids.trim();
    };
    await eventually("the terminal has a device", () => /^pts\/\d+/.test(find()));
    this.#device ??= `/dev/${find().split("\n")[0]?.trim() ?? ""}`;
    return this.#device;
  }
}
