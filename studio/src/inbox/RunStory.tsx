/** The history of the asking run so far; folded at first. */

import { useState } from "react";
import { Timeline } from "../runs/Timeline";
import { useTimeline } from "../runs/useTimeline";

export function RunStory({ runId }: { runId: string }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <details className="story" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>The run so far</summary>
      {isOpen && <Story runId={runId} />}
    </details>
  );
}

function Story({ runId }: { runId: string }) {
  const { items, isLive } = useTimeline(runId);
  return <Timeline items={items} isLive={isLive} />;
}
