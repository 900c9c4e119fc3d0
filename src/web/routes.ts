/** The route of every address: each file of `routes/` answers those of one subject. */
import type { Routes } from "./answer.ts";
import { actionRoutes } from "./routes/actions.ts";
import { attractorRoutes } from "./routes/attractor.ts";
import { liveRoutes } from "./routes/live.ts";
import { machineRoutes } from "./routes/machine.ts";
import { projectRoutes } from "./routes/projects.ts";
import { runRoutes } from "./routes/run.ts";
import { stepRoutes } from "./routes/step.ts";
import { timeRoutes } from "./routes/time.ts";

export const ROUTES: Routes = {
  ...machineRoutes,
  ...liveRoutes,
  ...runRoutes,
  ...stepRoutes,
  ...timeRoutes,
  ...projectRoutes,
  ...actionRoutes,
  ...attractorRoutes,
};
