import { describe, expect, it } from "@jest/globals";
import { refuseStrangers } from "../../../../demo/control-plane/http/access.ts";
import { ApiError } from "../../../../demo/control-plane/http/api-error.ts";

const ACCESS = { token: "c2VjcmV0", keyPem: "", certificatePem: "" };
const ask = (authorization?: string) => () => refuseStrangers({ headers: { authorization } }, ACCESS);

describe("the token of the embedded control plane", () => {
  it.each(["Bearer c2VjcmV0", "bearer c2VjcmV0", "Bearer   c2VjcmV0"])("lets %j in", (authorization) => {
    expect(ask(authorization)).not.toThrow();
  });

  it.each([
    undefined,
    "",
    "Bearer",
    "Bearer ",
    "c2VjcmV0",
    "Basic c2VjcmV0",
    "Bearer c2VjcmV",
    "Bearer c2VjcmV0a",
    "Bearer C2VJCMV0",
    "Bearer c2VjcmV0 x",
    "Bearer x, Bearer c2VjcmV0",
  ])("refuses %j", (authorization) => {
    expect(ask(authorization)).toThrow(new ApiError(401, "Unauthorized", "Unauthorized"));
  });
});
