/** nginx as one would put it before an LLM server: no buffering, upstream connections kept. */

import { proxyArm, type ProxyPorts } from "./proxy.ts";
import type { ArmContext } from "./arm.ts";
import { CERT_FILE, KEY_FILE } from "./tls_files.ts";

/** One worker process; each piece of the upstream's body goes to the client as it comes. */
export const nginxArm = proxyArm({
  name: "nginx",
  program: "nginx",
  configure: (ports, context) => nginxConfig(ports, context, false),
  argv: nginxCommand,
});

/** The same behind TLS towards the client. */
export const nginxTlsArm = proxyArm({
  name: "nginx-tls",
  program: "nginx",
  isTls: true,
  configure: (ports, context) => nginxConfig(ports, context, true),
  argv: nginxCommand,
});

function nginxCommand(program: string, config: string, context: ArmContext): string[] {
  return [program, "-p", context.scratch, "-c", config, "-e", "stderr"];
}

/** The configuration file. */
export function nginxConfig(ports: ProxyPorts, context: ArmContext, isTls: boolean): string {
  const { scratch } = context;
  const tls = isTls
    ? `ssl_certificate ${scratch}/${CERT_FILE}; ssl_certificate_key ${scratch}/${KEY_FILE}; ssl_protocols TLSv1.2 TLSv1.3;`
    : "";
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
    listen 127.0.0.1:${ports.listen}${isTls ? " ssl" : ""} backlog=4096;
    ${tls}
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
