// The engine's page behind `tidemark explain`: one volume's facts, rules and plan as of now, as JSON. It decides, and writes nothing.
import type { Page } from "../../process/metrics-server.ts";
import { explain } from "../decide/explain-decision.ts";
import type { Engine } from "../engine/engine.ts";
import type { Caches } from "../gather/caches.ts";
import type { PolicyBook } from "../gather/policy-book.ts";

/** Answers /explain/NAMESPACE/CLAIM. */
export function createExplainPage(caches: Caches, engine: Engine, policies: PolicyBook): Page {
  return (path) => {
    const [, page, namespace = "", name = ""] = path.split("/").map(decodeURIComponent);
    if (page !== "explain") return undefined;
    const [layout] = caches.layouts.store.byIndex("claim", `${namespace}/${name}`);
    const seen = layout === undefined ? undefined : engine.look(layout.metadata.name);
    if (seen === undefined)
      return { status: 404, body: { error: `no filesystem of claim ${namespace}/${name} is known` } };
    const { facts } = seen.gathered;
    const { policy, ceilings } = policies.forClaim(facts.claim);
    return { status: 200, body: explain(facts, policy, ceilings) };
  };
}
