/** The origin of an action, in words. */

import type { components } from "../api/schema";

export type Origin = components["schemas"]["Origin"];

const ON_HOST = ["app", "cli"];

/** Describe the channel and the address: "with a link, from 10.0.0.7". */
export function whence({ way, service, address }: Origin): string {
  const said = wayOf(way, service);
  // a click reaches the server from Slack's address
  if (address === undefined || way === "slack") return said;
  return ON_HOST.includes(way) ? `${said} on ${address}` : `${said}, from ${address}`;
}

function wayOf(way: string, service: string | undefined): string {
  switch (way) {
    case "key":
      return service === undefined ? "with an API key" : `with the key of ${service}`;
    case "login":
      return "signed in";
    case "proxy":
      return "signed in at the proxy";
    case "open":
      return "not signed in";
    case "link":
      return "with a link";
    case "slack":
      return "in Slack";
    case "mcp":
      return service === undefined ? "through MCP" : `through MCP with the key of ${service}`;
    case "callback":
      return "by a callback";
    case "worker":
      return service === undefined ? "by a worker" : `by a worker with key ${service}`;
    case "app":
      return "by a program";
    case "cli":
      return "on the command line";
    case "rule":
      return "by a rule";
    case "timer":
      return "by a timer";
    default:
      return way;
  }
}
