import { X509Certificate } from "node:crypto";
import { beforeAll, describe, expect, it } from "@jest/globals";
import {
  decideAuthority,
  decideBundle,
  decideLeaf,
  CERTIFICATE_TIMES as TIMES,
} from "../../../../../src/platform/process/certificates/decide-certificates.ts";
import { issueLeaf, makeAuthority } from "../../../../../src/platform/process/certificates/issue-certificate.ts";
import {
  type KeyPair,
  type LeafProfile,
  leafProblem,
  readBundle,
  type StoredPair,
} from "../../../../../src/platform/process/certificates/key-pair.ts";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const T0 = Date.parse("2030-01-01T00:00:00Z");
const SERVER: LeafProfile = { commonName: "engine.example", usage: "server" };
const CLIENT: LeafProfile = { commonName: "agent.example", usage: "client" };

const stored = (pair: KeyPair, ...bundle: KeyPair[]): StoredPair => ({
  ...pair,
  bundlePem: bundle.map(({ certificatePem }) => certificatePem).join(""),
});

describe("the decision about certificates", () => {
  let old: KeyPair;
  let next: KeyPair;
  let oldServer: KeyPair;
  let oldClient: KeyPair;
  /** When the old CA has 60 days left; the next one is made then. */
  const switching = T0 + TIMES.authorityLifeMs - 60 * DAY_MS;
  const issued = switching - 100 * DAY_MS;

  beforeAll(async () => {
    old = await makeAuthority("ca", T0, TIMES);
    next = await makeAuthority("ca", switching, TIMES);
    oldServer = await issueLeaf(old, SERVER, issued, TIMES);
    oldClient = await issueLeaf(old, CLIENT, issued, TIMES);
  });

  it("a leaf never outlives its CA", () => {
    const ends = ({ certificatePem }: KeyPair) => Date.parse(new X509Certificate(certificatePem).validTo);
    expect(ends(oldServer)).toBe(ends(old));
    expect(ends(old)).toBe(T0 + TIMES.authorityLifeMs);
  });

  it.each([
    ["is made where there is none", (): StoredPair | undefined => undefined, 0, { do: "make", why: "Absent" }],
    ["is kept for years", () => stored(old, old), 3000 * DAY_MS, { do: "keep" }],
    ["is replaced 90 days before it ends", () => stored(old, old), 3561 * DAY_MS, { do: "make", why: "Due" }],
    ["is not replaced 91 days before it ends", () => stored(old, old), 3559 * DAY_MS, { do: "keep" }],
    [
      "is replaced where its key is another's",
      () => stored({ ...old, keyPem: next.keyPem }, old),
      0,
      /does not belong/,
    ],
    ["is replaced where its key is no key", () => stored({ ...old, keyPem: "x" }, old), 0, /not a private key/],
    [
      "is replaced where its certificate is none",
      () => stored({ ...old, certificatePem: "x" }, old),
      0,
      /not an X\.509/,
    ],
    ["is replaced where a leaf stands in its place", () => stored(oldServer, old), 0, /not one of a CA/],
    ["is replaced where it has expired", () => stored(old, old), TIMES.authorityLifeMs, /has expired/],
  ] as const)("a CA %s", (_name, pair, ageMs, wanted) => {
    const decision = decideAuthority(pair(), T0 + ageMs, TIMES);
    if (wanted instanceof RegExp)
      expect(decision).toEqual({ do: "make", why: "Broken", problem: expect.stringMatching(wanted) });
    else expect(decision).toEqual(wanted);
  });

  it("both CAs are trusted from the moment that the next is made, and leaves wait for the overlap", () => {
    const leaves = [stored(oldServer, old), stored(oldClient, old)];
    const bundle = decideBundle(next, stored(old, old), leaves, switching, TIMES);
    expect(bundle).toEqual([next.certificatePem, old.certificatePem]);
    const decideAt = (nowMs: number) => decideLeaf(leaves[0], next, bundle, SERVER, nowMs, TIMES);
    expect(decideAt(switching)).toEqual({ do: "keep" });
    expect(decideAt(switching + TIMES.overlapMs - 1)).toEqual({ do: "keep" });
    expect(decideAt(switching + TIMES.overlapMs)).toMatchObject({ do: "make" });
  });

  it("the old CA is trusted until all its leaves have been replaced for an overlap", async () => {
    const atMs = switching + 2 * DAY_MS;
    const [server, client] = [await issueLeaf(next, SERVER, atMs, TIMES), await issueLeaf(next, CLIENT, atMs, TIMES)];
    const both = stored(next, next, old);
    const trusted = (leaves: KeyPair[], nowMs: number) =>
      decideBundle(
        next,
        both,
        leaves.map((leaf) => stored(leaf, next, old)),
        nowMs,
        TIMES,
      );
    expect(trusted([server, oldClient], atMs + 30 * DAY_MS)).toHaveLength(2);
    expect(trusted([server, client], atMs + TIMES.overlapMs - 1)).toHaveLength(2);
    expect(trusted([server, client], atMs + TIMES.overlapMs)).toEqual([next.certificatePem]);
    expect(trusted([server, oldClient], T0 + TIMES.authorityLifeMs)).toEqual([next.certificatePem]);
  });

  it("where the CA's Secret was lost, the CA that the leaves' holders trust stays trusted", () => {
    const leaves = [stored(oldServer, old), stored(oldClient, old)];
    expect(decideBundle(next, undefined, leaves, switching, TIMES)).toEqual([next.certificatePem, old.certificatePem]);
  });

  it("a CA of which no leaf is there is not trusted because somebody put it into a bundle", () => {
    expect(decideBundle(next, stored(next, next, old), [undefined, undefined], switching, TIMES)).toEqual([
      next.certificatePem,
    ]);
  });

  it.each([
    ["is made where there is none", (): StoredPair | undefined => undefined, 0, { do: "make", why: "Absent" }],
    ["is kept while it is good", () => stored(oldServer, old), 0, { do: "keep" }],
    ["is replaced where it is one of a client", () => stored(oldClient, old), 0, /does not name engine\.example/],
    ["is replaced where its key is no key", () => stored({ ...oldServer, keyPem: "" }, old), 0, /not a private key/],
    ["is replaced once it has 90 days left", () => stored(oldServer, old), 71 * DAY_MS, { do: "make", why: "Due" }],
  ] as const)("a leaf %s", (_name, pair, afterMs, wanted) => {
    const decision = decideLeaf(pair(), old, [old.certificatePem], SERVER, issued + afterMs, TIMES);
    if (wanted instanceof RegExp)
      expect(decision).toEqual({ do: "make", why: "Broken", problem: expect.stringMatching(wanted) });
    else expect(decision).toEqual(wanted);
  });

  it("a leaf is not taken for another purpose, from another CA, or after its end", () => {
    const asClient = { commonName: SERVER.commonName, usage: "client" } as const;
    expect(leafProblem(oldServer, [old.certificatePem], asClient, issued)).toMatch(/not one of a client/);
    expect(leafProblem(oldServer, [next.certificatePem], SERVER, issued)).toMatch(/no CA that is trusted/);
    expect(leafProblem(oldServer, [old.certificatePem], SERVER, T0 + TIMES.authorityLifeMs)).toMatch(/has expired/);
    expect(leafProblem(oldServer, [old.certificatePem], SERVER, issued)).toBeUndefined();
  });

  it("a bundle is read past what is no certificate in it", () => {
    const broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    expect(readBundle(`junk\n${broken}${old.certificatePem}${next.certificatePem}junk`)).toEqual([
      old.certificatePem,
      next.certificatePem,
    ]);
  });
});
