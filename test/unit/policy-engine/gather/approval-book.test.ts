import { describe, expect, it } from "@jest/globals";
import type { ScalingApproval } from "../../../../src/contracts/kinds/scaling-approval.ts";
import { GIB } from "../../../../src/contracts/quantities/quantity.ts";
import { APPROVALS_LIMIT, createApprovalBook } from "../../../../src/policy-engine/gather/approval-book.ts";
import { anApproval } from "../../../builders/approval.ts";
import { NOW_MS } from "../../../builders/facts.ts";
import { engineCaches } from "../../../fakes/engine-caches.ts";

const CLAIM = { namespace: "shop", name: "data-0", labels: { tier: "cache" } };

function bookOf(...objects: ScalingApproval[]) {
  const caches = engineCaches();
  const changed: string[] = [];
  const clock = { nowMs: NOW_MS };
  const book = createApprovalBook(
    caches,
    (namespace) => changed.push(namespace),
    () => clock.nowMs,
  );
  for (const object of objects) caches.approvals.put(object);
  const names = (claim = CLAIM) => book.forClaim(claim).map(({ name }) => name);
  return { caches, changed, book, names, clock };
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

  it("are not those that are over, where a namespace has more than it may, however old those are", () => {
    const over = Array.from({ length: APPROVALS_LIMIT }, (_, index) =>
      anApproval(`a${index}`, { notAfter: "2026-11-10T00:00:00Z" }),
    );
    const unreadable = anApproval("b", { notAfter: "soon" });
    const { book } = bookOf(...over, unreadable, anApproval("valid"));
    const counted = [...book.entries()].filter(({ isIgnored }) => !isIgnored).map(({ object }) => object.metadata.name);
    expect(counted).toContain("valid");
    expect(book.forClaim(CLAIM).map(({ name }) => name)).toContain("valid");
  });

  it("have one more as soon as one is over", () => {
    const soonOver = anApproval("a", { notAfter: "2026-11-20T12:01:00Z" });
    const many = Array.from({ length: APPROVALS_LIMIT }, (_, index) => anApproval(`b${100 + index}`));
    const { names, clock } = bookOf(soonOver, ...many);
    expect(names()).not.toContain("b227");
    clock.nowMs = Date.parse("2026-11-20T12:01:00Z");
    expect(names()).toContain("b227");
    expect(names()).not.toContain("a");
    clock.nowMs = NOW_MS;
    expect(names()).toContain("a");
  });

  it("are compared with a claim's labels once, and again when an approval changes", () => {
    let reads = 0;
    const labels = { tier: "cache" };
    const counted = new Proxy(labels, {
      getOwnPropertyDescriptor: (target, key) => {
        reads += 1;
        return Reflect.getOwnPropertyDescriptor(target, key);
      },
    });
    const selecting = anApproval("selecting", { claims: undefined, selector: { matchLabels: { tier: "cache" } } });
    const { caches, names } = bookOf(selecting);
    const claim = { ...CLAIM, labels: counted };
    expect([names(claim), names(claim), reads]).toEqual([["selecting"], ["selecting"], 1]);
    caches.approvals.put(anApproval("selecting", { claims: undefined, selector: { matchLabels: { tier: "db" } } }, 2));
    expect([names(claim), reads]).toEqual([[], 2]);
  });
});
