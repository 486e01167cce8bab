import { Metadata, status } from "@grpc/grpc-js";
import { beforeEach, describe, expect, it } from "@jest/globals";
import { type Admit, createAgentAdmission } from "../../../../src/policy-engine/samples/sample-listener.ts";
import { AGENT_USERNAME, agentToken, createTokenReviewer, type TokenReviewer } from "../../../fakes/token-reviewer.ts";

const HOUR_MS = 3_600_000;
const T0 = Date.parse("2030-01-01T00:00:00Z");

describe("the admission of an agent", () => {
  let reviewer: TokenReviewer;
  let admit: Admit;
  let nowMs: number;
  const claims = { nodeName: "node-a", expiresAtMs: T0 + HOUR_MS };
  const show = (token: string) => {
    const metadata = new Metadata();
    metadata.set("authorization", `Bearer ${token}`);
    return admit(metadata);
  };

  beforeEach(() => {
    nowMs = T0;
    reviewer = createTokenReviewer();
    admit = createAgentAdmission({ client: reviewer, agentUsername: AGENT_USERNAME, nowMs: () => nowMs });
  });

  it("is for the node that its token names", async () => {
    expect(await show(agentToken(claims))).toEqual({ admitted: true, nodeName: "node-a" });
  });

  it.each([
    ["another service account's token", { username: "system:serviceaccount:shop:web" }, /one of system:.*:shop:web/],
    ["an agent's account in another namespace", { username: "system:serviceaccount:shop:tidemark-agent" }, /shop/],
    ["a token that names no node", { nodeName: undefined }, /names no node/],
    ["a token for the API server", { audiences: ["https://kubernetes.default.svc"] }, /another audience/],
  ])("is refused with %s", async (_name, difference, reason) => {
    expect(await show(agentToken({ ...claims, ...difference }))).toMatchObject({
      admitted: false,
      reason: expect.stringMatching(reason),
    });
  });

  it.each([undefined, "", "Basic abc", "Bearer ", `Bearer ${"x".repeat(20_000)}`])(
    "is refused without a question where there is no token: %s",
    async (value) => {
      const metadata = new Metadata();
      if (value !== undefined) metadata.set("authorization", value);
      expect(await admit(metadata)).toMatchObject({ admitted: false, code: status.UNAUTHENTICATED });
      expect(reviewer.asked()).toBe(0);
    },
  );

  it("asks once for a token that comes many times at once, and again only after ten minutes", async () => {
    const token = agentToken(claims);
    await Promise.all(Array.from({ length: 50 }, () => show(token)));
    nowMs += 599_000;
    await show(token);
    expect(reviewer.asked()).toBe(1);
    nowMs += 1000;
    await show(token);
    expect(reviewer.asked()).toBe(2);
  });

  it("while the API server is down, takes a token that it knows until that ends, and no other", async () => {
    const token = agentToken(claims);
    await show(token);
    reviewer.down(true);
    nowMs = T0 + HOUR_MS - 1;
    expect(await show(token)).toEqual({ admitted: true, nodeName: "node-a" });
    expect(await show(agentToken({ ...claims, id: 2 }))).toMatchObject({ admitted: false, code: status.UNAVAILABLE });
    nowMs = T0 + HOUR_MS;
    expect(await show(token)).toMatchObject({ admitted: false, code: status.UNAVAILABLE });
  });

  it("forgets a token that the API server refuses later", async () => {
    const token = agentToken(claims);
    await show(token);
    reviewer.revoke(token);
    nowMs += 600_000;
    expect(await show(token)).toMatchObject({ admitted: false, code: status.UNAUTHENTICATED });
    reviewer.down(true);
    expect(await show(token)).toMatchObject({ admitted: false, code: status.UNAVAILABLE });
  });

  it("does not let one who shows many tokens ask the API server without end", async () => {
    const answers = await Promise.all(Array.from({ length: 200 }, (_, id) => show(agentToken({ ...claims, id }))));
    expect(reviewer.asked()).toBe(64);
    expect(answers.filter(({ admitted }) => !admitted)).toHaveLength(136);
  });
});
