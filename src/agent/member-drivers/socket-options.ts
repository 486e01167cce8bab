// How other drivers' sockets are spoken to. A path as :authority, which some clients send, is refused by some servers.

export const SOCKET_OPTIONS = {
  "grpc.default_authority": "localhost",
  // Who calls again does not want to wait for a back-off of the connection.
  "grpc.initial_reconnect_backoff_ms": 50,
  "grpc.max_reconnect_backoff_ms": 500,
} as const;
