/** The conversation of an agent and its user before a question. */

import { visible } from "../shell/visible";
import "./conversation.css";

export interface Said {
  who: string;
  text: string;
}

/** Return the conversation in a question's metadata, if it has one. */
export function conversationOf(metadata: Record<string, unknown>): readonly Said[] | undefined {
  const { conversation } = metadata;
  return Array.isArray(conversation) && conversation.length > 0 && conversation.every(isSaid)
    ? conversation
    : undefined;
}

/** Return the rest of a question's metadata. */
export function withoutConversation(metadata: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(metadata).filter(
      ([name]) => !["conversation", "tool_call_id", "signoff_paused"].includes(name),
    ),
  );
}

function isSaid(value: unknown): value is Said {
  const { who, text } = (value ?? {}) as Partial<Said>;
  return typeof who === "string" && typeof text === "string";
}

export function Conversation({ said }: { said: readonly Said[] }) {
  return (
    <section>
      <h3>The conversation</h3>
      <ol className="conversation">
        {said.map(({ who, text }, index) => (
          <li key={index} className={who}>
            <span className="said-by">{visible(who)}</span>
            <span className="text">{visible(text)}</span>
          </li>
        ))}
      </ol>
    </section>
  );
}
