/** Opens an address in the browser of the person at this machine, if there is one. */
import { spawn } from "node:child_process";
import { userStatePath, writeUserState } from "./project/user-state.ts";

const FILE = "open.html";

/**
 * Opens an address that contains a secret. Everybody on this machine can read the arguments of a
 * program, so the browser gets the name of a file that leads to the address.
 */
export function openInBrowser(url: string): void {
  const { DISPLAY, WAYLAND_DISPLAY } = process.env;
  const isMac = process.platform === "darwin";
  if (!isMac && DISPLAY === undefined && WAYLAND_DISPLAY === undefined) return;
  const refresh = `<meta http-equiv="refresh" content="0; url=${url.replaceAll("&", "&amp;")}">`;
  try {
    writeUserState([FILE], `<!doctype html><title>perdure</title>${refresh}\n`);
  } catch {
    // The address is on the terminal.
    return;
  }
  const opener = isMac ? "open" : "xdg-open";
  const child = spawn(opener, [userStatePath(FILE)], { detached: true, stdio: "ignore" });
  child.on("error", () => undefined);
  child.unref();
}
