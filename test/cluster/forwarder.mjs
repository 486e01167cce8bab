// Carries connections from this machine's loopback into the cluster's network: it runs in that network, and is given sockets that
// already listen outside (a socket stays in the namespace it was made in). One message for each: {host, port} and the socket.
import { connect } from "node:net";

process.on("message", ({ host, port }, server) => {
  server.on("connection", (outside) => {
    const inside = connect({ host, port, allowHalfOpen: true });
    outside.pipe(inside).pipe(outside);
    outside.on("error", () => inside.destroy());
    inside.on("error", () => outside.destroy());
    outside.on("close", () => inside.destroy());
    inside.on("close", () => outside.destroy());
  });
  process.send({ port });
});
