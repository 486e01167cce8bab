// Writes the page of what the policy language refuses of CEL, from a run of cel-spec's conformance cases: generate-cel-conformance.ts FILE.
import { writeFileSync } from "node:fs";
import { conformancePage } from "./cel-conformance/conformance-page.ts";

const [file] = process.argv.slice(2);
if (file === undefined) throw new Error("usage: generate-cel-conformance.ts FILE");
writeFileSync(file, conformancePage());
