// The demo's own program, which no image has: the show, and the embedded control plane that it and the tests use instead of a cluster.
import { runCommandLine } from "../src/platform/process/flags.ts";

void runCommandLine("demo", {
  run: {
    summary: "watch a real filesystem breathe under load, on this machine",
    run: async (args) => (await import("./show/demo.ts")).runDemo(args),
  },
  standalone: {
    summary: "the embedded control plane, for demo and tests",
    run: async (args) => (await import("./stand-ins/main.ts")).runStandalone(args),
  },
  writer: {
    summary: "the demo's unaware writer",
    run: async (args) => (await import("./show/writers/writer-process.ts")).runDemoWriter(args),
  },
});
