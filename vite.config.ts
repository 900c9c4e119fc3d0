/** Builds the page of the dashboard into `dist/page`, from which `perdure ui` serves it. */
import { resolve } from "node:path";
import { defineConfig } from "vite";

export default defineConfig({
  root: resolve(import.meta.dirname, "src/page"),
  build: {
    outDir: resolve(import.meta.dirname, "dist/page"),
    emptyOutDir: true,
    // The page may load nothing but files of its own server, not even from `data:` addresses.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    // Beside those of the other bundles (scripts/bundle.ts).
    license: { fileName: "LICENCES.md" },
    rolldownOptions: {
      // A package marks its modules for servers that render pages; this one renders none.
      onwarn(warning, warn) {
        if (warning.code !== "MODULE_LEVEL_DIRECTIVE") warn(warning);
      },
    },
  },
  // A package with directives for another bundler makes warnings that nobody can act on.
  logLevel: "error",
});
