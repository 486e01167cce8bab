import { describe, expect, it } from "@jest/globals";
import { SPAN } from "../../../../src/contracts/csi/driver.ts";
import { Refusal } from "../../../../src/contracts/csi/refusal.ts";
import { parseVolumeParameters } from "../../../../src/operator/csi/requests/volume-parameters.ts";
import {
  decideMarks,
  marksOf,
  recordsOfRules,
  rulesOfRecords,
} from "../../../../src/operator/decide/members/member-rules.ts";

const CLASS = {
  backend: "span",
  memberStorageClassName: "gp3",
  "csi.storage.k8s.io/pvc/name": "data",
  "csi.storage.k8s.io/pvc/namespace": "shop",
};

function rulesWith(parameters: Record<string, string>) {
  try {
    return parseVolumeParameters({ ...CLASS, ...parameters }, SPAN).memberRules;
  } catch (error) {
    if (error instanceof Refusal) return `${error.code}: ${error.message}`;
    throw error;
  }
}

describe("a StorageClass that says what members carry", () => {
  const rules = rulesWith({ memberLabels: "team, example.com/cost-center,team", memberAnnotations: "owner" });
  const carried = { labels: ["example.com/cost-center", "team"], annotations: ["owner"] };

  it("is read as two lists of keys, which the volume's records keep", () => {
    expect(rules).toMatchObject({ className: "gp3", carried });
    const records = recordsOfRules(typeof rules === "string" ? undefined : rules);
    expect(records).toMatchObject({
      "tidemark.dev/member-labels": "example.com/cost-center,team",
      "tidemark.dev/member-annotations": "owner",
    });
    expect(rulesOfRecords(records)).toEqual(rules);
  });

  it.each<Record<string, string>>([{}, { memberLabels: "" }, { memberLabels: " , " }])(
    "carries nothing by %j, and records nothing of it",
    (parameters) => {
      const none = rulesWith(parameters);
      expect(none).toEqual({ className: "gp3", maxMembers: 4, spareMembers: 0, strategy: "Auto" });
    },
  );

  it.each([
    "app.kubernetes.io/instance",
    "app.kubernetes.io/managed-by",
    "argocd.argoproj.io/tracking-id",
    "argocd.argoproj.io/instance",
    "argocd.argoproj.io/sync-options",
    "kustomize.toolkit.fluxcd.io/name",
    "kustomize.toolkit.fluxcd.io/prune",
    "helm.toolkit.fluxcd.io/namespace",
    "meta.helm.sh/release-name",
    "helm.sh/chart",
    "objectset.rio.cattle.io/hash",
    "kubectl.kubernetes.io/last-applied-configuration",
    "applyset.kubernetes.io/part-of",
    "config.k8s.io/owning-inventory",
    "volume.kubernetes.io/selected-node",
    "pv.kubernetes.io/bind-completed",
    "tidemark.dev/volume-uid",
    "tidemark.dev/on-node-loss",
  ])("is refused for %s, as a label and as an annotation", (key) => {
    for (const parameter of ["memberLabels", "memberAnnotations"])
      expect(rulesWith({ [parameter]: `team,${key}` })).toMatch(
        new RegExp(`^INVALID_ARGUMENT: parameter ${parameter}: "${key}" is .*; leave it out$`),
      );
  });

  it.each([
    "app.kubernetes.io/name",
    "app.kubernetes.io/component",
    "example.com/team",
    "notargoproj.io/team",
    "Team_1",
  ])("may name %s", (key) =>
    expect(rulesWith({ memberLabels: key })).toMatchObject({ carried: { labels: [key], annotations: [] } }),
  );

  it.each(["a b", "/team", "team/", "a/b/c", "Example.com/team", "-team", "x".repeat(64), `${"d".repeat(254)}/team`])(
    "is refused for what is no key: %s",
    (key) =>
      expect(rulesWith({ memberLabels: key })).toMatch(
        /^INVALID_ARGUMENT: .* is not a key of a label or an annotation$/,
      ),
  );

  it("is refused with more than 16 keys", () => {
    const keys = Array.from({ length: 17 }, (_, index) => `key-${index}`).join();
    expect(rulesWith({ memberAnnotations: keys })).toBe(
      "INVALID_ARGUMENT: parameter memberAnnotations: it has 17 keys, and 16 are the most",
    );
  });

  it("is never taken from a record that names a tool's key", () => {
    const forged = {
      "tidemark.dev/member-class": "gp3",
      "tidemark.dev/member-labels": "team,app.kubernetes.io/instance",
    };
    expect(rulesOfRecords(forged)).not.toHaveProperty("carried");
  });
});

describe("what a member carries", () => {
  const carried = { labels: ["team"], annotations: ["owner"] };
  const claim = (labels: Record<string, string>, annotations: Record<string, string> = {}) => ({
    metadata: { name: "data", labels, annotations },
  });
  const own = { "tidemark.dev/member": "m0" };

  it("begins as the claim's, of the allowed keys alone", () => {
    expect(marksOf(carried, claim({ team: "a", tier: "gold" }, { owner: "b", note: "c" }))).toEqual({
      labels: { team: "a" },
      annotations: { owner: "b" },
    });
    expect(marksOf(carried, { metadata: { name: "bare" } })).toEqual({ labels: {}, annotations: {} });
  });

  it.each([
    [
      "what it lacks is added",
      claim({ team: "a" }, { owner: "b" }),
      claim(own),
      { labels: { team: "a" }, annotations: { owner: "b" } },
    ],
    ["what differs is changed", claim({ team: "a" }), claim({ ...own, team: "z" }), { labels: { team: "a" } }],
    [
      "what the claim has no more goes",
      claim({}),
      claim({ ...own, team: "z" }, { owner: "b" }),
      { labels: { team: null }, annotations: { owner: null } },
    ],
    [
      "what is the same is not written",
      claim({ team: "a" }, { owner: "b" }),
      claim({ ...own, team: "a" }, { owner: "b" }),
      undefined,
    ],
    [
      "what is not allowed is left alone",
      claim({ tier: "gold" }),
      claim({ ...own, tier: "iron", rack: "7" }),
      undefined,
    ],
  ])("%s", (_what, of, member, patch) => {
    expect(decideMarks(carried, of, member)).toEqual(patch);
  });
});
