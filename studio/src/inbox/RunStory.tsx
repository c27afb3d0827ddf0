/** The history of the asking run so far; folded at first. */

import { useState } from "react";
import { Timeline } from "../runs/Timeline";
import { timelineOf } from "../runs/timeline";
import { useJournal } from "../runs/useJournal";

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
  const { entries, isLive } = useJournal(runId);
  return <Timeline items={timelineOf(entries, entries[0]?.at ?? 0)} isLive={isLive} />;
}
