/** The conversation of a run's agents: their output, their tool calls, and people's decisions. */

import { Link } from "@tanstack/react-router";
import "../inbox/conversation.css";
import { Json } from "../shell/Json";
import { visible } from "../shell/visible";
import { StateMark } from "./StateMark";
import type { Line } from "./talk";

export function Talk({ lines }: { lines: readonly Line[] }) {
  return (
    <ol className="conversation" aria-label="Conversation">
      {lines.map((line, index) => (
        <Said key={line.kind === "live" ? `live-${line.n}` : `${seqOf(line)}-${index}`} line={line} />
      ))}
    </ol>
  );
}

function seqOf(line: Exclude<Line, { kind: "live" }>): number {
  return line.kind === "question" ? line.item.seq : line.seq;
}

function Said({ line }: { line: Line }) {
  switch (line.kind) {
    case "text":
      return (
        <li className="agent">
          <span className="said-by">{visible(line.who)}</span>
          <span className="text">{visible(line.text)}</span>
        </li>
      );
    case "thinking":
      return (
        <li className="agent">
          <details>
            <summary>{visible(line.who)} thought</summary>
            <span className="text">{visible(line.text)}</span>
          </details>
        </li>
      );
    case "call":
      return (
        <li className="agent">
          <span className="said-by">
            {visible(line.who)} calls <code>{visible(line.tool)}</code>
          </span>
          <Json value={line.args} />
        </li>
      );
    case "result":
      return (
        <li className="tool">
          <span className="said-by">
            <code>{visible(line.who)}</code> {line.outcome}
          </span>
          {line.value !== undefined && line.value !== null && <Result value={line.value} />}
        </li>
      );
    case "question":
      return <Asked line={line} />;
    case "live":
      return <Speaking line={line} />;
  }
}

/** An agent's live output; its journaled line replaces it. */
function Speaking({ line: { who, text, thinking } }: { line: Extract<Line, { kind: "live" }> }) {
  return (
    <li className="agent" aria-busy="true">
      {thinking !== "" && (
        <details>
          <summary>{visible(who)} thinks</summary>
          <span className="text">{visible(thinking)}</span>
        </details>
      )}
      {text !== "" && (
        <>
          <span className="said-by">{visible(who)}</span>
          <span className="text">{visible(text)}</span>
        </>
      )}
    </li>
  );
}

function Result({ value }: { value: unknown }) {
  return typeof value === "string" ? <span className="text">{visible(value)}</span> : <Json value={value} />;
}

function Asked({ line: { item } }: { line: Extract<Line, { kind: "question" }> }) {
  return (
    <li className="tool">
      <span className="said-by">
        {item.id === undefined ? (
          visible(item.name)
        ) : (
          <Link to="/inbox/$id" params={{ id: item.id }}>
            {visible(item.name)}
          </Link>
        )}{" "}
        <StateMark state={item.state} />
        {item.by ? ` by ${visible(item.by)}` : ""}
      </span>
      {item.note ? <span className="text">{visible(item.note)}</span> : null}
      <Edited value={item.value} />
    </li>
  );
}

/** A person's changes to a proposal. */
function Edited({ value }: { value: unknown }) {
  const { edits, proposal } = (value ?? {}) as { edits?: unknown[]; proposal?: unknown };
  if (edits === undefined || edits.length === 0) return null;
  return (
    <>
      <span className="said-by">with other arguments</span>
      <Json value={proposal} />
    </>
  );
}
