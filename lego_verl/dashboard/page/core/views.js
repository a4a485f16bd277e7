// The views, in the order of the navigation; each module is fetched when it is first shown.

const load = (name) => () => import(`../views/${name}.js`);

export const VIEWS = {
  overview: { title: "Overview", load: load("overview") },
  learning: { title: "Learning", load: load("learning") },
  outcomes: { title: "Outcomes", load: load("outcomes") },
  tasks: { title: "Tasks", load: load("tasks") },
  behaviour: { title: "Behaviour", load: load("behaviour") },
  alignment: { title: "Alignment", load: load("alignment") },
  time: { title: "Time", load: load("time") },
  trials: { title: "Trials", load: load("trials") },
  compare: { title: "Compare", load: load("compare") },
  recipe: { title: "Recipe", load: load("recipe") },
  trial: { title: "Trial", load: load("trial"), hidden: true },
  runs: { title: "Runs", load: load("runs"), hidden: true },
};
