#!/usr/bin/env node
// The `tidemark` command: one bundle, every process of a cluster, and what an operator asks them by hand.
import { runCommandLine } from "../platform/process/flags.ts";

// Loaded when they are run: a process should not pay for the others.
void runCommandLine("tidemark", {
  explain: {
    summary: "why a claim has the size it has: facts, rules, plan, and when next",
    run: async (args) => (await import("./explain.ts")).runExplain(args),
  },
  lint: {
    summary: "whether policies in files would work, and what of them is hardly meant; needs no cluster",
    run: async (args) => (await import("./lint.ts")).runLint(args),
  },
  "policy-engine": {
    summary: "the process that decides",
    run: async (args) => (await import("../policy-engine/main.ts")).runPolicyEngine(args),
  },
  operator: {
    summary: "the process that provisions",
    run: async (args) => (await import("../operator/main.ts")).runOperator(args),
  },
  agent: {
    summary: "the process on each node",
    run: async (args) => (await import("../agent/main.ts")).runAgent(args),
  },
  extender: {
    summary: "the process that the scheduler asks where volumes fit",
    run: async (args) => (await import("../extender/main.ts")).runExtender(args),
  },
  "ca-publisher": {
    summary: "the process that says to the API server which CA has signed a webhook's certificate",
    run: async (args) => (await import("../ca-publisher/main.ts")).runCaPublisher(args),
  },
  lvmd: {
    summary: "the process that runs LVM, on each node that has volume groups",
    run: async (args) => (await import("../lvmd/main.ts")).runLvmd(args),
  },
});
