// The page of the chat. Whatever is shown is set as text, never as HTML.

const session = location.hash.slice(1) || crypto.randomUUID().slice(0, 8);
history.replaceState(null, "", `#${session}`);
const said = document.getElementById("said");
const asked = document.getElementById("asked");
const trouble = document.getElementById("trouble");
const form = document.getElementById("say");
let unheard = []; // what was sent, and is in no history yet
let live = null;

async function send(path, body) {
  const options = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  const response = await fetch(path, options);
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.error ?? "The request failed.");
  return answer;
}

async function trying(work) {
  trouble.textContent = "";
  try {
    await work();
  } catch (error) {
    trouble.textContent = error.message;
  }
  await show();
}

function line(by, text) {
  const item = document.createElement("li");
  item.className = by;
  item.textContent = text;
  return item;
}

function question({ id, text, kind, tool, arguments: given }) {
  const card = document.createElement("article");
  const about = document.createElement("p");
  about.textContent = text;
  card.append(about);
  if (tool !== null) {
    const shown = document.createElement("pre");
    shown.textContent = `${tool} ${JSON.stringify(given, null, 2)}`;
    card.append(shown);
  }
  if (kind !== "approval") {
    const elsewhere = document.createElement("p");
    elsewhere.textContent = "Answer it in the inbox: signoff inbox.";
    card.append(elsewhere);
    return card;
  }
  for (const [decision, label] of [["approve", "Approve"], ["deny", "Deny"]]) {
    const button = document.createElement("button");
    button.textContent = label;
    button.addEventListener("click", () =>
      trying(() => send("/respond", { session, question: id, decision, user: "ana" })),
    );
    card.append(button, " ");
  }
  return card;
}

let showing = 0;
async function show() {
  const turn = ++showing;
  const now = await (await fetch(`/chat/${session}`)).json();
  if (turn !== showing) return;
  const heard = now.said.filter(({ by }) => by === "you").map(({ text }) => text);
  unheard = unheard.filter((text) => !heard.includes(text));
  said.replaceChildren(
    ...now.said.map(({ by, text }) => line(by, text)),
    ...unheard.map((text) => line("you", text)),
    ...(live === null || unheard.length === 0 ? [] : [live]),
  );
  asked.replaceChildren(...now.asked.map(question));
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  const text = form.elements.text.value;
  form.reset();
  unheard.push(text);
  live = null;
  void show();
  void trying(() => send("/chat", { session, text, id: crypto.randomUUID() }));
});

const events = new EventSource(`/chat/${session}/events`);
events.addEventListener("turn", () => void show());
events.addEventListener("live", ({ data }) => {
  const { position, text, kind } = JSON.parse(data);
  if (kind !== "text") return;
  if (position === 0 || live === null) live = line("desk", "");
  live.textContent += text;
  if (!live.isConnected) said.append(live);
});
void show();
