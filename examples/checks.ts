// Run it: perdure run examples/checks.ts
// The same keys as in YAML; what is repeated is a function, and `needs` may only name steps.
import { definePipeline } from "perdure";

const CHECKS = ["lint", "types", "test"] as const;

const check = (name: (typeof CHECKS)[number]) => ({
  id: name,
  run: `echo "npm run ${name}"`,
  needs: [],
  retry: 2,
  timeout: "10m",
});

export default definePipeline({
  name: "checks",
  input: { type: "object", properties: { who: { type: "string", default: "world" } } },
  steps: [
    ...CHECKS.map(check),
    {
      id: "tell",
      needs: CHECKS,
      // ${{ }} is Perdure's own: in a template literal, write it as \${{ }}.
      run: "echo All is well, ${{ input.who }}.",
    },
  ],
});
