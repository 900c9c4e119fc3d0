/** What the server says about itself: its projects, and whether it allows changes. */
import { createContext, useContext } from "react";
import type { Doc } from "./api.ts";

export const ServerContext = createContext<Doc<"projects"> | undefined>(undefined);

/** The projects; undefined until the server has answered. */
export function useServer(): Doc<"projects"> | undefined {
  return useContext(ServerContext);
}

/** True when this page may change runs. */
export function useMayAct(): boolean {
  return useServer()?.read_only === false;
}
