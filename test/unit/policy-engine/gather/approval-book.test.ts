import { describe, expect, it } from "@jest/globals";
import type { ScalingApproval } from "../../../../src/contracts/kinds/scaling-approval.ts";
import { GIB } from "../../../../src/contracts/quantities/quantity.ts";
import { APPROVALS_LIMIT, createApprovalBook } from "../../../../src/policy-engine/gather/approval-book.ts";
import { anApproval } from "../../../builders/approval.ts";
import { engineCaches } from "../../../fakes/engine-caches.ts";

const CLAIM = { namespace: "shop", name: "data-0", labels: { tier: "cache" } };

function bookOf(...objects: ScalingApproval[]) {
  const caches = engineCaches();
  const changed: string[] = [];
  const book = createApprovalBook(caches, (namespace) => changed.push(namespace));
  for (const object of objects) caches.approvals.put(object);
  const names = (claim = CLAIM) => book.forClaim(claim).map(({ name }) => name);
  return { caches, changed, book, names };
}

describe("the approvals of a claim", () => {
  it("are those that name it, and those whose selector takes its labels", () => {
    const { names, book } = bookOf(
      anApproval("named"),
      anApproval("of-another", { claims: ["data-1"] }),
      anApproval("selecting", { claims: undefined, selector: { matchLabels: { tier: "cache" } } }),
      anApproval("of-the-others", { claims: undefined, selector: { matchLabels: { tier: "db" } } }),
      anApproval("of-all", { claims: undefined, selector: {} }),
    );
    expect(names().sort()).toEqual(["named", "of-all", "selecting"]);
    expect(book.forClaim(CLAIM)[0]).toMatchObject({ action: "Extend", boundBytes: 20 * GIB });
  });

  it("are of its own namespace alone", () => {
    const { names } = bookOf(anApproval("named"));
    expect(names({ ...CLAIM, namespace: "other" })).toEqual([]);
  });

  it("follow what is written, and go with it", () => {
    const { caches, changed, names, book } = bookOf(anApproval("named"));
    caches.approvals.put(anApproval("named", { notAbove: "30Gi" }, 2));
    expect(book.forClaim(CLAIM)[0]).toMatchObject({ boundBytes: 30 * GIB });
    caches.approvals.remove("shop/named");
    expect(names()).toEqual([]);
    expect(changed).toEqual(["shop", "shop", "shop"]);
  });

  it("are not news where only their status is", () => {
    const { caches, changed } = bookOf(anApproval("named"));
    const object = anApproval("named");
    caches.approvals.put({ ...object, metadata: { ...object.metadata, resourceVersion: "9" }, status: {} });
    expect(changed).toEqual(["shop"]);
  });

  it("leave out what cannot be read", () => {
    const { names } = bookOf(
      anApproval("without-end", { notAfter: "soon" }),
      anApproval("unbounded", { notAbove: undefined }),
    );
    expect(names()).toEqual([]);
  });

  it("are the oldest ones, where a namespace has more than it may", () => {
    const many = Array.from({ length: APPROVALS_LIMIT + 1 }, (_, index) => anApproval(`a${index}`));
    const old = anApproval("old");
    const { names, book } = bookOf(...many, {
      ...old,
      metadata: { ...old.metadata, creationTimestamp: "2020-01-01T00:00:00Z" },
    });
    expect(names()).toHaveLength(APPROVALS_LIMIT);
    expect(names()).toContain("old");
    expect([...book.entries()].filter(({ isIgnored }) => isIgnored)).toHaveLength(2);
  });
});
