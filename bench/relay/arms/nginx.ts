/** nginx as one would put it before an LLM server: no buffering, upstream connections kept. */

import { proxyArm, type ProxyPorts } from "./proxy.ts";
import type { ArmContext } from "./arm.ts";

/** One worker process; each piece of the upstream's body goes to the client as it comes. */
export const nginxArm = proxyArm({
  name: "nginx",
  program: "nginx",
  configure: nginxConfig,
  argv: (program, config, context) => [program, "-p", context.scratch, "-c", config, "-e", "stderr"],
});

/** The configuration file. */
export function nginxConfig(ports: ProxyPorts, context: ArmContext): string {
  const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
    .map((kind) => `  ${kind}_temp_path ${context.scratch};`).join("\n");
  return `daemon off;
worker_processes 1;
pid ${context.scratch}/nginx.pid;
error_log stderr error;
events { worker_connections ${context.streams * 2 + 512}; }
http {
  access_log off;
${temporary}
  keepalive_requests 1000000;
  upstream source {
    server 127.0.0.1:${ports.upstream};
    keepalive ${context.streams + 64};
    keepalive_requests 1000000;
  }
  server {
    listen 127.0.0.1:${ports.listen} backlog=4096;
    location / {
      proxy_pass http://source;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
      proxy_read_timeout 300s;
    }
  }
}
`;
}
