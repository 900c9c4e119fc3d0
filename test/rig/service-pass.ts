/** Looks at all projects once, as `perdure service run` does, at a time that the test chooses. */
import { ServiceLoop } from "../../src/app/service/service.ts";
import { reportText } from "../../src/view/service-text.ts";
import { PROGRAM } from "./project.ts";

const [, , now = ""] = process.argv;
// The commands that it starts are those of the program.
process.argv[1] = PROGRAM;
const service = new ServiceLoop(process.cwd(), (report) => console.log(reportText(report)));
await service.pass(Number(now));
await service.close();
