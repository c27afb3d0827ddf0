/** The HTTP API of the server that this page came from. */

import createClient from "openapi-fetch";
import type { components, paths } from "./schema";

export type Promised = components["schemas"]["Promise"];

/** A refusal, as `application/problem+json` describes it. */
export interface Problem {
  type: string;
  title: string;
  status: number;
  detail?: string;
  fields?: { field: string; message: string }[];
  [more: string]: unknown;
}

export const api = createClient<paths>({ baseUrl: document.baseURI.replace(/\/$/, "") });

export class Refused extends Error {
  readonly problem: Problem;

  constructor(problem: Problem) {
    super(problem.detail ?? problem.title);
    this.problem = problem;
  }

  /** The last part of the problem's type, such as `AlreadySettled`. */
  get kind(): string {
    return this.problem.type.split(":").at(-1) ?? "";
  }
}

/** Return a request's result, or throw its refusal. */
export async function given<T>(
  request: Promise<{ data?: T; error?: unknown; response: Response }>,
): Promise<T> {
  const { data, error, response } = await request;
  if (error !== undefined || !response.ok) {
    throw new Refused(asProblem(error, response));
  }
  return data as T;
}

function asProblem(error: unknown, response: Response): Problem {
  if (typeof error === "object" && error !== null && "type" in error) {
    return error as Problem;
  }
  return {
    type: "about:blank",
    title: response.statusText || "The server cannot answer",
    status: response.status,
  };
}
