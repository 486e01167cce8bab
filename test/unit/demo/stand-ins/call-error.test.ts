// What an Event says of a call of kubelet's or a sidecar's that failed, and of what failed beside it.
import { status } from "@grpc/grpc-js";
import { expect, it } from "@jest/globals";
import { describeCallError } from "../../../../demo/stand-ins/csi-client.ts";

it("a gRPC failure is told as the sidecars print it", () => {
  const error = Object.assign(new Error("14 UNAVAILABLE: no agent"), { code: status.UNAVAILABLE, details: "no agent" });
  expect(describeCallError(error)).toBe("rpc error: code = UNAVAILABLE desc = no agent");
});

it("a failure of the system's is told in its own words, not as a gRPC code that there is none of", () => {
  const error = Object.assign(new Error("ENOTEMPTY: directory not empty, rmdir '/x/globalmount'"), {
    code: "ENOTEMPTY",
  });
  expect(describeCallError(error)).toBe("ENOTEMPTY: directory not empty, rmdir '/x/globalmount'");
});

it("anything else is told as it is", () => {
  expect(describeCallError("out of luck")).toBe("out of luck");
});
