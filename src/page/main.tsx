/** Mounts the page. */
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App, applyTheme } from "./app.tsx";
import "./styles/base.css";
import "./styles/parts.css";
import "./styles/shell.css";

applyTheme();
const root = document.getElementById("root");
if (root !== null) {
  createRoot(root).render(
    <StrictMode>
      <App />
    </StrictMode>,
  );
}
